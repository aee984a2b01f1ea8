# Functions of the program changed while it runs. Of the runner of replay (replay/runner) this takes how a call is judged.
import json
import os
import sys

import torch

from ditrace_runner.call import convert, is_dense, walk, wide
from ditrace_runner.capture import Capture
from ditrace_runner.describe import tensor_facts, value_facts
from ditrace_runner.device import synchronize
from ditrace_runner.errors import Refused, first_line
from ditrace_runner.functions import BITS, CASTS, DROPOUTS, FACTORIES, MOVES, RANDOM, UNINITIALISED, base_name
from ditrace_runner.judge import Judge, as_autograd_sums
from ditrace_runner.load import LOCATIONS
from ditrace_runner.probe import MANY, ROUNDOFF, Probe, noise_maker, overflow, rms
from ditrace_runner.talk import Talk
from ditrace_runner.times import described
