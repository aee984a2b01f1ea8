# The mode: every function of PyTorch that the program calls passes through it.
import functools
import inspect

import torch.overrides as functions
import torch.utils._python_dispatch as operators

# Functions that tell of a tensor, arrange for gradients, or move data: nothing is computed.
NOT_COMPUTED = set("""size dim ndimension stride numel nelement element_size is_contiguous is_floating_point is_complex
    is_signed is_pinned is_shared is_inference is_conj is_neg is_same_size backward register_hook
    register_post_accumulate_grad_hook retain_grad requires_grad_ detach detach_ data_ptr storage untyped_storage
    storage_offset storage_type typed_storage get_device to cpu cuda npu type pin_memory share_memory_ record_stream
    reinforce set_ resize_ resize resize_as_ resize_as resize_as_sparse_ __len__ __repr__ __str__ __format__ __hash__
    __dir__ __deepcopy__ __reduce__ __reduce_ex__ __setstate__ __contains__ __array__ __array_wrap__ __iter__ __dlpack__
    __dlpack_device__ __cuda_array_interface__ numpy tolist names rename rename_ align_to align_as refine_names
    has_names device dtype is_distributed is_tensor is_storage result_type can_cast promote_types get_default_dtype
    set_default_dtype manual_seed seed save load broadcast_shapes as_subclass apply_ map_ map2_ module_load
    resolve_conj resolve_neg lift_fresh sparse_mask to_sparse to_dense coalesce values indices crow_indices
    col_indices dense_dim sparse_dim to_mkldnn is_coalesced q_scale q_zero_point qscheme""".split())
ARITHMETIC = set("""rsub pow rpow div rdiv truediv rtruediv floordiv rfloordiv matmul rmatmul mod rmod ipow idiv
    itruediv ifloordiv imod lshift rlshift rshift rrshift""".split())
VIEWS = set("""view reshape transpose permute expand expand_as t T mT H mH movedim moveaxis swapaxes swapdims chunk
    split split_with_sizes unbind narrow squeeze unsqueeze flatten ravel unflatten diagonal view_as view_as_real
    view_as_complex as_strided select slice unfold real imag conj adjoint hsplit vsplit dsplit tensor_split
    broadcast_to expand alias contiguous squeeze_ unsqueeze_ transpose_ t_ swapaxes_ swapdims_ as_strided_
    _unsafe_view""".split())
MAKE = FACTORIES | set("""zeros_like ones_like full_like empty_like rand_like randn_like randint_like new_zeros new_ones
    new_full new_empty new_empty_strided new_tensor empty_permuted""".split())

class Busy:
    """What runs in it is ditrace's own."""

    def __enter__(self):
        enter()

    def __exit__(self, *_):
        leave()


def is_compiling():
    return False


if hasattr(torch, "compiler") and hasattr(torch.compiler, "is_compiling"):
    is_compiling = torch.compiler.is_compiling  # a constant to the compiler


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


def plan_of(func):
    """(Plan or None, its own body or None, what is called for it or None, as what it is counted when it is left out or
    None, whether it always is), None: the function is called as it is."""
    bind_late()
    plan = wanted_of(func)
    found = plan, body_of(func), stand_in(func)
    out = left_out(plan)
    if plan is not None:
        plan.is_asked = out[0] is not None
        plan.quick = how_quick(plan)
    return (*found, *out) if any(found) else None


def left_out(plan):
    """Of functions that are compared alone, and whose calls need no other look."""
    if plan is None or plan.features != ["compare"] or plan.when:
        return None, False
    reason = never_compared(plan)
    if reason or LINK.settings["sample"] == 1:
        return ("compare", plan.name, reason or BEYOND), reason is not None
    return None, False


def stand_in(func):
    """Before 2.0 an operator comes with Python's number where it takes a tensor, which it then refuses itself."""
    if not LEVEL.is_aten or hasattr(torch, "compile") or func._schema.overload_name != "Tensor":
        return None
    places = [i for i, a in enumerate(func._schema.arguments) if str(a.type) == "Tensor"]

    def call(*args, **kwargs):
        good = all(isinstance(args[i], torch.Tensor) for i in places if i < len(args))
        return func(*args, **kwargs) if good else func.overloadpacket(*args, **kwargs)

    return call


def name_of(func):
    """As ditorch names functions, or as the dispatcher does operators. None: it is neither."""
    if LEVEL.is_aten:
        schema = func._schema
        return schema.name + ("." + schema.overload_name if schema.overload_name else "")
    name = functions.resolve_name(func)
    if name is None and getattr(func, "__name__", "").startswith("_foreach_"):  # PyTorch 1 names it
        name = "torch." + func.__name__
    good = isinstance(name, str) and name.startswith("torch.") and not name.endswith((".__get__", ".__set__", ".__delete__"))
    return name if good else None


def wanted_of(func):
    name = name_of(func)
    if name is None:
        return None
    base = base_name(name)
    if base in NOT_COMPUTED:
        return None
    answer = LINK.ask(event="name", name=name, base=base)
    return Plan(func, name, answer["features"], answer["when"], answer["casts"]) if answer["features"] else None


# Functions that are written in Python are run so that those which they call come to the mode, too: with the mode on,
# and without their own question whether there is one.
QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
BODIES = ("torch.functional", "torch.nn.functional", "torch._tensor", "torch._linalg_utils", "torch._lowrank")
OTHER_BODIES = set("backward unflatten split stft istft norm lu unique unique_consecutive".split())
NAMES = {}  # of a module: its names as they are, but for the questions


def is_python(func):
    if type(func) is not types.FunctionType or func.__module__ not in BODIES:
        return False
    name = func.__name__
    return any(q in func.__globals__ for q in QUESTIONS) and (
        func.__module__ != "torch._tensor" or name in OTHER_BODIES or name.strip("_") in ARITHMETIC)


def body_of(func):
    if LEVEL.is_aten or not is_python(func):
        return None
    names = NAMES.get(func.__module__)
    if names is None:
        inside = type("Names", (dict,), {"__missing__": func.__globals__.__getitem__})
        names = NAMES[func.__module__] = inside({q: lambda *_: False for q in QUESTIONS})
        names["__builtins__"] = func.__globals__["__builtins__"]
    body = types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    body.__kwdefaults__ = func.__kwdefaults__
    return body


PLAIN = (torch.Tensor, torch.nn.Parameter)
FEATURES = {}  # name: function(plan, call, args, kwargs, at) that does it
REFUSED = {}  # feature: [(names, why it leaves these alone)]

# What the library looks calls through with.
TENSOR, PARAMETER, SIZE, STRIDED = torch.Tensor, torch.nn.Parameter, torch.Size, torch.strided
DTYPE, DEVICE, GENERATOR, CPU = torch.dtype, torch.device, torch.Generator, torch.device("cpu")
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
TO, CLONE, COPY, DATA_PTR = torch.Tensor.to, torch.Tensor.clone, {"copy": True}, torch.Tensor.data_ptr
STORAGE_OFFSET, ELEMENT_SIZE = torch.Tensor.storage_offset, torch.Tensor.element_size
GET_STATE, SET_STATE = torch.default_generator.get_state, torch.default_generator.set_state
STATE_BYTES = GET_STATE().numel()
GRAD, SET_GRAD, DISPATCHING = torch.is_grad_enabled, torch._C._set_grad_enabled, torch._C._len_torch_dispatch_stack
AUTOCAST, AUTOCAST_CPU = torch.is_autocast_enabled, functools.partial(torch.is_autocast_enabled, "cpu") if hasattr(
    torch, "get_autocast_dtype") else torch.is_autocast_cpu_enabled
TRACING_STATE, TORCH_NAMES = torch._C._get_tracing_state, vars(torch)
IS_WRAPPED = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", None)


class Functions(functions.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        """For torch.compile, which looks for it in the class; PyTorch itself is given another (modes_call.c)."""
        return func(*args, **(kwargs or {}))


class Operators(operators.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """The same."""
        return func(*args, **(kwargs or {}))


class Level:
    """Where calls are met: at the functions of PyTorch, or at the operators of its dispatcher."""

    def __init__(self, is_aten):
        self.is_aten = is_aten
        self.module = operators if is_aten else functions
        self.push, self.pop = self.module._push_mode, self.module._pop_mode
        self.mode = made(Operators if is_aten else Functions, is_aten)

    def stack(self):
        """The modes of this thread, the one that is asked first last."""
        n = torch._C._len_torch_dispatch_stack() if self.is_aten else torch._C._len_torch_function_stack()
        at = torch._C._get_dispatch_stack_at if self.is_aten else torch._C._get_function_stack_at
        return [at(i) for i in range(n)]

    def is_on(self):
        return any(m is self.mode for m in self.stack())

    def lifted(self, most, wanted=lambda mode: True):
        """Up to so many modes, the topmost first, off the stack."""
        found = []
        while len(found) < most and wanted(self.stack()[-1]):
            found.append(self.pop())
        return found

    def put_on(self):
        """Beneath the modes of the program, which are asked before it and are left in the order they were entered in,
        but for one that asks to be the lowest of all. Those of PyTorch itself have places of their own."""
        if any(getattr(m, "_mode_key", None) is not None for m in self.stack()):
            return
        above = self.lifted(len(self.stack()), lambda mode: not is_lowest(mode))
        for m in (self.mode, *reversed(above)):
            self.push(m)

    def take_off(self):
        """Those of the program stay as they are."""
        places = [i for i, m in enumerate(self.stack()) if m is self.mode]
        if not places or any(getattr(m, "_mode_key", None) is not None for m in self.stack()):
            return False
        above = self.lifted(len(self.stack()) - places[-1] - 1)
        self.pop()
        for m in reversed(above):
            self.push(m)
        return True


def is_lowest(mode):
    """torch.set_default_device: it may dig itself in at the bottom, and then insists on being there when it ends."""
    kind = getattr(sys.modules.get("torch.utils._device"), "DeviceContext", None)
    return kind is not None and isinstance(mode, kind) and "cur_stack" in kind.__exit__.__code__.co_varnames


LEVEL = None


def is_capturing(device):
    """Are calls on it recorded as a graph, to be run later? torch.cuda and torch.npu say so."""
    capturing = getattr(getattr(torch, device, None), "is_current_stream_capturing", None)
    return capturing is not None and bool(capturing())


def unfit(tensors):
    """Why a call with these is left alone; None: it need not be."""
    if torch._C._get_tracing_state() is not None:
        return "is being traced"
    for t in tensors:
        if type(t) not in PLAIN:
            return f"has a {type(t).__name__}, which is a subclass of Tensor"
        if t.layout != torch.strided or t.is_quantized:
            return f"has a tensor of layout {str(t.layout)[6:]}" if not t.is_quantized else "has a quantized tensor"
        if t.device.type == "meta":
            return "has a tensor without numbers"
        if IS_WRAPPED is not None and IS_WRAPPED(t):
            return "is inside of vmap, grad or the like"
        if is_capturing(t.device.type):
            return "is being captured as a graph"
    return None


class Raised(Exception):
    """What the program's own call has raised."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


class Unchanged(Exception):
    """This call is left alone, for a reason."""


def why_unfit(args, kwargs):
    try:
        return unfit(tensors_in(args, kwargs))
    except Exception as e:
        return why_failed(e, "cannot be looked at")


def why_failed(e, what="failed"):
    return f"{what}: {first_line(e)}"


def quietly(f, *args):
    """What is told of a call that was made already: failing, it must not have the call made again."""
    try:
        with Busy():
            return f(*args)
    except Exception:
        return None


def arguments_of(func):
    """Of an operator; none of a function."""
    return func._schema.arguments if hasattr(func, "_schema") else []


def how_written(func, base):
    """What tells of tensors that a call writes to, though not every device counts their versions up. None: nothing."""
    if base in ("batch_norm", "instance_norm") or arguments_of(func) and base.endswith("batch_norm"):
        return written_statistics  # of which not all schemas tell
    if arguments_of(func):
        return written_by_schema
    return written_list if base.startswith("_foreach_") and base.endswith("_") else None


def written_list(plan, args, kwargs):
    return tensors_in(args[:1], kwargs.get("self"))


def written_statistics(plan, args, kwargs):
    names = [a.name for a in arguments_of(plan.func)]
    named = dict(zip(names, args) if names else named_arguments(plan, args, kwargs), **kwargs)
    wanted = named.get("training") or named.get("use_input_stats")
    return tensors_in(named.get("running_mean"), named.get("running_var")) if wanted else []


def is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def written_by_schema(plan, args, kwargs):
    """The tensors that an operator writes to."""
    named = [(a, args[i] if i < len(args) else kwargs.get(a.name)) for i, a in enumerate(arguments_of(plan.func))]
    return [t for a, x in named if is_written(a) for t in tensors_in(x)]


def may_write(plan, args, kwargs):
    """By its name: where nothing else tells."""
    at = plan.inplace_at
    return plan.writes or "out" in kwargs or bool(kwargs.get("inplace") or at is not None and any(args[at:at + 1]))


def write_back(pairs):
    """What a call has written to copies, into the tensors of the program: all or nothing."""
    for x, new in pairs:
        if x.shape != new.shape:
            raise Unchanged("changes the shape of an argument")
        if x.requires_grad and x.is_leaf and torch.is_grad_enabled() and not LEVEL.is_aten:
            raise Unchanged("changes a leaf that wants a gradient")
    for x, new in pairs:
        x.copy_(new.to(x.dtype))  # the lazy device loses views where it has to cast itself


def fact(x):
    """A value as ditrace's conditions are told it."""
    if x is None or isinstance(x, float) and x - x == 0 or isinstance(x, int) and abs(x) < 1 << 63:
        return x
    if isinstance(x, torch.Tensor):
        return {"tensor": dict(shape=list(x.shape), stride=list(x.stride()), offset=x.storage_offset(),
                               dtype=str(x.dtype)[6:], device=str(x.device), layout=str(x.layout)[6:],
                               requires_grad=x.requires_grad)}
    if isinstance(x, (tuple, list)):
        return [fact(v) for v in x]
    for kind, name in ((str, "text"), (torch.device, "device"), (torch.dtype, "dtype"), (torch.layout, "layout"),
                       (torch.memory_format, "format")):
        if isinstance(x, kind):
            return {name: str(x).replace("torch.", "", 1) if name not in ("text", "device") else str(x)}
    return {}


def parameters_of(func):
    try:
        return inspect.signature(func).parameters
    except (TypeError, ValueError):
        return {}


def named_arguments(plan, args, kwargs):
    """(name, value) of those that are given, in their order, and then of the others that Python knows a value for."""
    parameters = parameters_of(plan.func)
    given = [*zip(names_of(plan, list(parameters), len(args)), args), *kwargs.items()]
    names = [name for name, _ in given]
    return given + [(k, p.default) for k, p in parameters.items() if p.default is not p.empty and k not in names]


def names_of(plan, names, n):
    """Of the arguments that are given by place: Python's, else those of the operator of that name."""
    if not names:
        for schema in torch._C._jit_get_schemas_for_operator("aten::" + plan.base):
            if len(schema.arguments) >= n:
                names = [a.name for a in schema.arguments]
                break
    return [names[i] if i < len(names) else f"arg{i}" for i in range(n)]


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
