"""Which function a name stands for. Only ops that compute, unless the captures are trusted."""
import importlib
import re
import types

import torch
import torch.overrides

from ditrace_runner.errors import Refused, Skipped, first_line

FACTORIES = set("""zeros ones full arange range eye linspace logspace tensor as_tensor scalar_tensor empty
    empty_strided rand randn randint randperm normal bartlett_window blackman_window hamming_window hann_window
    kaiser_window tril_indices triu_indices complex polar from_numpy asarray""".split())
NOT_OPS = set("from_file save load set_ _save_for __setstate__ __reduce_ex__ module_load share_memory_".split())
UNINITIALISED = set("empty empty_like empty_strided new_empty new_empty_strided empty_permuted resize_ resize_as_ "
                    "resize _efficientzerotensor".split())
RANDOM = set("""rand rand_like randn randn_like randint randint_like randperm normal normal_ uniform uniform_ random
    random_ bernoulli bernoulli_ poisson poisson_ multinomial exponential_ geometric_ cauchy_ log_normal_
    native_dropout rrelu rrelu_ rrelu_with_noise gumbel_softmax fractional_max_pool2d fractional_max_pool3d
    kaiming_uniform_ kaiming_normal_ xavier_uniform_ xavier_normal_ trunc_normal_ orthogonal_ sparse_ binomial _sample_dirichlet
    _standard_gamma svd_lowrank pca_lowrank lobpcg""".split())
MARKS = set("profiler".split())  # namespaces of operators that mark something, and compute nothing
DUALS = set("_make_dual _unpack_dual _fw_primal _enter_dual_level _exit_dual_level".split())
DROPOUTS = set("dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout "
               "feature_dropout_ feature_alpha_dropout feature_alpha_dropout_".split())
RNNS = set("lstm gru rnn_tanh rnn_relu".split())
DROPOUT_INSIDE = RNNS | set("multi_head_attention_forward scaled_dot_product_attention "
                            "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
                            "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention".split())
# Data movement and selection: every element of the result is one of the inputs, or a constant.
MOVES = set("""view reshape transpose permute expand expand_as contiguous clone detach t T mT movedim swapaxes swapdims
    cat concat concatenate stack hstack vstack split split_with_sizes chunk unsafe_chunk unsafe_split unbind
    index_select gather take take_along_dim select slice narrow __getitem__ index squeeze unsqueeze flatten ravel
    unflatten flip fliplr flipud roll rot90 repeat repeat_interleave tile where masked_fill masked_fill_
    masked_select tril triu diag diagonal diag_embed embedding relu relu_ clamp clamp_ clamp_min clamp_max abs abs_
    neg neg_ zeros ones full zeros_like ones_like full_like zero_ fill_ new_zeros new_ones new_full
    max min amax amin maximum minimum sort topk argsort argmax argmin kthvalue median view_as
    as_strided as_strided_ alias lift_fresh unfold_copy detach_ pad constant_pad_nd hardtanh relu6 sign max_pool1d
    max_pool2d max_pool3d max_pool2d_with_indices one_hot index_fill index_fill_ scatter scatter_ channel_shuffle
    pixel_shuffle pixel_unshuffle broadcast_to real imag select_scatter slice_scatter diagonal_scatter eye
    nonzero bitwise_and bitwise_or bitwise_not logical_and logical_or logical_not threshold threshold_
    _reshape_alias _unsafe_view masked_scatter masked_scatter_ unsafe_split_with_sizes unfold positive
    select_copy view_copy tril_ triu_ squeeze_ unsqueeze_ transpose_ t_ swapdims_ swapaxes_ __setitem__
    eq ne lt le gt ge isnan isinf isfinite __and__ __or__ __xor__ __invert__ __eq__ __ne__ __lt__ __le__ __gt__
    __ge__ __neg__ __abs__ __pos__""".split())
CASTS = set("to _to_copy copy_ type type_as float double half bfloat16 cpu cuda to_dense".split())
BITS = set("nextafter frexp result_type".split())  # what float64 cannot stand in for
VARIADIC = set("broadcast_tensors cartesian_prod block_diag align_tensors".split())  # of operators that take one list
# Which results only the operator's own backward reads, so that kernels differ in what they write there, if anything.
PRIVATE = {"embedding_bag": {1, 2, 3}, "_embedding_bag": {1, 2, 3}, "_embedding_bag_forward_only": {1, 2, 3}, "_ctc_loss": {1},
           "cudnn_batch_norm": {3}, "_scaled_dot_product_efficient_attention": {1, 2, 3},
           "_scaled_dot_product_flash_attention": set(range(1, 9)), "_scaled_dot_product_cudnn_attention": set(range(1, 9)),
           "log_sigmoid_forward": {1}}
# Statistics, at these places, which devices give in float32 where the CPU gives half types.
STATISTICS = dict.fromkeys("native_layer_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update "
                           "native_group_norm".split(), {1, 2})
ORDERED = set("sort topk argsort argmax argmin max min kthvalue median mode cummax cummin".split())


def base_name(name):
    """"add" of torch.Tensor.add, aten::add.Tensor, torch.ops.aten.add.Tensor."""
    if "::" in name:
        return name.split("::", 1)[1].split(".", 1)[0]
    parts = name.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) > 3:
        return parts[3]
    return parts[1] if parts[0] == "aten" and len(parts) > 1 else parts[-1]


def draws_inside(base, args, kwargs):
    """Of functions with a dropout inside: whether it has a rate, in training. No other argument of theirs that is a
    fraction comes by position; of RNNs what follows the rate says whether it is training."""
    if not kwargs.get("training", kwargs.get("train", True)):
        return False
    rates = [x for x, train in zip(args, [*args[1:], None]) if isinstance(x, float) and not (base in RNNS and train is False)]
    return any(x > 0 for x in [*rates, *(x for name, x in kwargs.items() if name != "scale" and isinstance(x, float))])


def namespace_of(name):
    """"aten" of aten::add.Tensor and torch.ops.aten.add.Tensor, "" of torch.add."""
    if "::" in name:
        return name.split("::", 1)[0]
    parts = name.split(".")
    return parts[2] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else ""


# PyTorch's own namespaces whose operators talk to other processes, load, compile or trace. Those of others are as their
# packages have registered them.
FOREIGN = set("""prim static_runtime profiler inductor c10d c10d_functional _c10d_functional _c10d_functional_autograd
    symm_mem _dtensor rpc debugprims debug_mode_ops export onnx _test higher_order""".split())
FILE_WORDS = re.compile(r"(?<!pro)file|path|folder|directory|^fname|(^|_)(dir|url|uri)s?(_|$)", re.IGNORECASE)


def operator_name(name):
    """"add" of torch.Tensor.add, "fft_rfft" of torch.fft.rfft."""
    parts = name.split(".")
    prefix = parts[1] + "_" if parts[0] == "torch" and len(parts) == 3 and parts[1] in ("linalg", "fft", "special") else ""
    return prefix + base_name(name)


def operator_behind(name, function):
    """The operator that a function in C is named after; None: it is no such function, or there is none."""
    in_c = type(function).__name__ in ("builtin_function_or_method", "method_descriptor")
    return getattr(torch.ops.aten, operator_name(name), None) if in_c else None


def schemas_of(name):
    """The schemas of the operators that a name may stand for."""
    if "::" in name:
        qualified, _, overload = name.partition(".")
    else:
        parts = name.split(".")
        qualified = f"{namespace_of(name) or 'aten'}::{operator_name(name)}"
        overload = parts[4] if parts[:2] == ["torch", "ops"] and len(parts) > 4 else ""
    found = torch._C._jit_get_schemas_for_operator(qualified)
    exact = [s for s in found if s.overload_name == ("" if overload == "default" else overload)] if overload else []
    return exact or found


def schema_of(function):
    """That of an operator, whose name without an overload is that of the default one; None: it is none."""
    schema = getattr(function, "_schema", None)
    return schema or getattr(getattr(function, "default", None), "_schema", None)


def takes_text(argument):
    return re.search(r"\bstr\b", str(argument.type)) is not None


def names_file(schema):
    return any(takes_text(a) and FILE_WORDS.search(a.name) for a in schema.arguments)


def only_tells(schema):
    return not schema.returns and any(takes_text(a) for a in schema.arguments) and "Tensor" not in str(schema)


def check_op(name):
    """Raises Refused for an op that does more than compute, as far as its name and schemas tell."""
    if namespace_of(name) in FOREIGN:
        raise Refused(f"{name} is no op that computes: {namespace_of(name)} is not for the tensors of one process")
    schemas = schemas_of(name)
    if any(names_file(s) for s in schemas):
        raise Refused(f"{name} is no op that computes: it takes the name of a file")
    if "::" not in name and base_name(name) in NOT_OPS:
        raise Refused(f"{name} is no op that computes")
    if schemas and all(only_tells(s) for s in schemas):
        raise Skipped("it tells of something, and computes nothing")


def import_all(modules):
    """Of packages that register operators."""
    for name in filter(None, modules.split(",")):
        try:
            importlib.import_module(name)
        except Exception as e:  # a module may raise anything
            raise Refused(f"--import {name}: {first_line(e)}") from None


def operator(namespace, rest):
    if not namespace.isidentifier():
        raise Refused(f"{namespace!r} is no namespace of operators")
    packet = getattr(getattr(torch.ops, namespace), rest[0], None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        hint = "" if namespace == "aten" else "; the package that registers it is imported by --import"
        raise Refused(f"this PyTorch {torch.__version__} has no operator {namespace}::{rest[0]}{hint}")
    if len(rest) == 1:
        return packet
    found = getattr(packet, rest[1], None)
    if not isinstance(found, torch._ops.OpOverload):
        raise Refused(f"this PyTorch {torch.__version__} has no operator {namespace}::{rest[0]}.{rest[1]}")
    return found


class Functions:
    def __init__(self):
        self.known = {}
        namespaces = {"torch": torch, "torch.functional": torch.functional, "torch.nn.functional": torch.nn.functional,
                      "torch.Tensor": torch.Tensor, "torch.linalg": torch.linalg, "torch.fft": torch.fft,
                      "torch.special": torch.special, "torch._C._nn": torch._C._nn, "torch.nn.init": torch.nn.init}
        overridable = set()
        for functions in torch.overrides.get_overridable_functions().values():
            overridable.update(id(f) for f in functions)
        self.namespaces, self.overridable = namespaces, overridable

    def find(self, name, trust):
        if not trust:
            check_op(name)
        if "::" in name:
            return operator(*(lambda a, b: (a, b.split(".")))(*name.split("::", 1)))
        parts = name.split(".")
        if parts[:2] == ["torch", "ops"] and len(parts) in (4, 5):
            return operator(parts[2], parts[3:])
        if parts[0] == "aten" and len(parts) in (2, 3):
            return operator("aten", parts[1:])
        space, last = ".".join(parts[:-1]), parts[-1]
        if space in self.namespaces:
            f = getattr(self.namespaces[space], last, None)
            if f is None:
                raise Refused(f"this PyTorch {torch.__version__} has no {name}")
            if id(f) in self.overridable or (space == "torch" and last in FACTORIES) or self.is_method(space, last, f) or (
                    space == "torch" and f is getattr(torch._C._VariableFunctions, last, None)) or (
                        self.is_functional(space, last, f)):
                return f
        if not trust:
            raise Refused(f"{name} is no op of PyTorch; with --trust whatever it names is called")
        f = importlib.import_module(parts[0])
        for p in parts[1:]:
            f = getattr(f, p)
        return f

    @staticmethod
    def is_functional(space, last, f):
        """Functions that cannot be overridden, such as hardswish, relu_ and, before 2.11, kaiming_uniform_."""
        plain = isinstance(f, types.FunctionType) and f.__module__ == space and last[0] != "_"
        return plain and space in ("torch.nn.functional", "torch.nn.init") or (
            space == "torch.nn.functional" and f in (getattr(torch, last, None), getattr(torch._C._nn, last, None)))

    @staticmethod
    def is_method(space, last, f):
        """Methods in C that are not in the list of what can be overridden, such as new_zeros."""
        return space in ("torch.Tensor", "torch._C._nn") and type(f).__name__ in (
            "method_descriptor", "wrapper_descriptor", "builtin_function_or_method") and not last.startswith(
                ("__reduce", "__setstate", "__class", "__init", "__new", "__del", "__get", "__sub__class")) or (
                    space == "torch.Tensor" and last == "__getitem__")
