"""What is done about a function: the features that it has, and their conditions."""
import json

from ditrace_modes.arguments import arguments_of, fact, how_written, is_written, named_arguments, parameters_of, written_by_schema
from ditrace_modes.calls import Unchanged
from ditrace_modes.capture import capture
from ditrace_modes.cast import NO_CAST, dtypes_of
from ditrace_modes.fallback import NO_FALLBACK
from ditrace_modes.first_nan import first_nan
from ditrace_modes.link import LINK
from ditrace_modes.looks import measure_time, print_args
from ditrace_modes.native import cast, compare, fallback
from ditrace_modes.overflow import overflow_check
from ditrace_runner.functions import base_name

# feature: function(plan, call, args, kwargs, at) that does it
FEATURES = {"fallback": fallback, "cast": cast, "compare": compare, "overflow": overflow_check, "print": print_args,
            "time": measure_time, "capture": capture, "first-nan": first_nan}
# feature: [(names of functions, why it leaves these alone)]
REFUSED = {"fallback": NO_FALLBACK, "cast": NO_CAST}


class Plan:
    """What is to be done about a function."""

    def __init__(self, func, name, features, when, casts, base=None):
        self.func, self.name, self.base, self.features = func, name, base or base_name(name), features
        self.is_foreign = base is not None
        self.written = how_written(func, self.base)
        self.writes = self.written not in (None, written_by_schema) or self.base.endswith("_") or self.base.startswith(
            "__") or any(is_written(a) for a in arguments_of(func))
        self.inplace_at = next((i for i, name in enumerate(parameters_of(func)) if name == "inplace"), None)
        self.casts = casts  # a function's own
        self.is_asked = False  # whether it may be compared, before it is called
        self.quick = 0  # for modes_compare.c
        self.when, self.held = when, {}  # features that have a condition; (feature, facts): whether it held
        self.refused = {f: why for f in features for names, why in REFUSED.get(f, ()) if self.base in names}
        self.dtypes = dtypes_of(casts["casts"]) if casts else None


def check_condition(feature, plan, args, kwargs):
    if feature not in plan.when:
        return
    facts = [[k, fact(v)] for k, v in named_arguments(plan, args, kwargs)]
    key = feature, json.dumps(facts)
    if key not in plan.held:
        if len(plan.held) >= 4096:
            plan.held.clear()
        plan.held[key] = LINK.ask(event="facts", feature=feature, name=plan.name, base=plan.base, args=facts)["holds"]
    if not plan.held[key]:
        raise Unchanged("does not meet the condition" if plan.held[key] is False else "may not meet the condition")
