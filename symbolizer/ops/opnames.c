#include "symbolizer/ops/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbolizer/event/event.h"

/* A string without a terminating NUL. */
struct span {
	const char *s;
	size_t len;
};

/* Python names that stand for operators with other names. Sorted by name; operators separated by
 * spaces. Sources: torch/_tensor.py, torch/nn/functional.py,
 * tools/autograd/templates/python_variable_methods.cpp and
 * torch/csrc/autograd/python_variable_indexing.cpp. */
static const struct python_name {
	const char *name, *ops;
} python_names[] = {
    {"torch.Tensor.H", "matrix_H"},
    {"torch.Tensor.T", "numpy_T"},
    {"torch.Tensor.__abs__", "abs"},
    {"torch.Tensor.__add__", "add"},
    {"torch.Tensor.__and__", "__and__ bitwise_and"},
    {"torch.Tensor.__bool__", "is_nonzero item"},
    {"torch.Tensor.__div__", "div"},
    {"torch.Tensor.__eq__", "eq"},
    {"torch.Tensor.__float__", "item"},
    {"torch.Tensor.__floordiv__", "floor_divide"},
    {"torch.Tensor.__ge__", "ge"},
    {"torch.Tensor.__getitem__", "select slice index unsqueeze alias"},
    {"torch.Tensor.__gt__", "gt"},
    {"torch.Tensor.__iadd__", "add_"},
    {"torch.Tensor.__iand__", "__iand__ bitwise_and_"},
    {"torch.Tensor.__idiv__", "div_"},
    {"torch.Tensor.__ifloordiv__", "floor_divide_"},
    {"torch.Tensor.__imod__", "remainder_"},
    {"torch.Tensor.__imul__", "mul_"},
    {"torch.Tensor.__index__", "item"},
    {"torch.Tensor.__int__", "item"},
    {"torch.Tensor.__invert__", "bitwise_not"},
    {"torch.Tensor.__ior__", "__ior__ bitwise_or_"},
    {"torch.Tensor.__ipow__", "pow_"},
    {"torch.Tensor.__isub__", "sub_"},
    {"torch.Tensor.__itruediv__", "div_"},
    {"torch.Tensor.__ixor__", "__ixor__ bitwise_xor_"},
    {"torch.Tensor.__le__", "le"},
    {"torch.Tensor.__lt__", "lt"},
    {"torch.Tensor.__matmul__", "matmul"},
    {"torch.Tensor.__mod__", "remainder"},
    {"torch.Tensor.__mul__", "mul"},
    {"torch.Tensor.__ne__", "ne"},
    {"torch.Tensor.__neg__", "neg"},
    {"torch.Tensor.__or__", "__or__ bitwise_or"},
    {"torch.Tensor.__pos__", "positive"},
    {"torch.Tensor.__pow__", "pow"},
    {"torch.Tensor.__radd__", "add"},
    {"torch.Tensor.__rdiv__", "reciprocal mul"},
    {"torch.Tensor.__rfloordiv__", "floor_divide"},
    {"torch.Tensor.__rmatmul__", "matmul"},
    {"torch.Tensor.__rmod__", "remainder"},
    {"torch.Tensor.__rmul__", "mul"},
    {"torch.Tensor.__rpow__", "pow"},
    {"torch.Tensor.__rsub__", "rsub"},
    {"torch.Tensor.__rtruediv__", "reciprocal mul"},
    {"torch.Tensor.__setitem__", "index_put_ copy_"},
    {"torch.Tensor.__sub__", "sub"},
    {"torch.Tensor.__truediv__", "div"},
    {"torch.Tensor.__xor__", "__xor__ bitwise_xor"},
    {"torch.Tensor.bfloat16", "to"},
    {"torch.Tensor.bool", "to"},
    {"torch.Tensor.byte", "to"},
    {"torch.Tensor.char", "to"},
    {"torch.Tensor.cpu", "to"},
    {"torch.Tensor.cuda", "to"},
    {"torch.Tensor.double", "to"},
    {"torch.Tensor.float", "to"},
    {"torch.Tensor.half", "to"},
    {"torch.Tensor.int", "to"},
    {"torch.Tensor.long", "to"},
    {"torch.Tensor.npu", "to"},
    {"torch.Tensor.short", "to"},
    {"torch.Tensor.split", "split split_with_sizes"},
    {"torch.Tensor.type", "to"},
    {"torch.functional.norm", "norm linalg_norm linalg_vector_norm linalg_matrix_norm"},
    {"torch.nn.functional.affine_grid", "affine_grid_generator"},
    {"torch.nn.functional.cross_entropy", "cross_entropy_loss"},
    {"torch.nn.functional.dropout2d", "feature_dropout feature_dropout_"},
    {"torch.nn.functional.dropout3d", "feature_dropout feature_dropout_"},
    {"torch.nn.functional.fold", "col2im"},
    {"torch.nn.functional.grid_sample", "grid_sampler"},
    {"torch.nn.functional.interpolate",
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
     "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d "
     "upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa"},
    {"torch.nn.functional.logsigmoid", "log_sigmoid"},
    {"torch.nn.functional.nll_loss", "nll_loss_nd"},
    {"torch.nn.functional.softmin", "softmax"},
    {"torch.nn.functional.unfold", "im2col"},
    {"torch.norm", "norm linalg_norm linalg_vector_norm linalg_matrix_norm"},
    {"torch.sparse.mm", "_sparse_mm"},
    {"torch.sparse.sum", "_sparse_sum"},
    {"torch.split", "split split_with_sizes"},
};

/* aten::X that is torch.nn.functional.X in Python and not better known as torch.X. Sorted. */
static const char *const functional[] = {
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gelu",
    "glu",
    "group_norm",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "log_softmax",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softplus",
    "softshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
};

/* aten::X that is only a method or attribute of Tensor in Python. Sorted. */
static const char *const methods[] = {
    "align_as",
    "align_to",
    "ccol_indices",
    "coalesce",
    "col_indices",
    "contiguous",
    "crow_indices",
    "data",
    "dense_dim",
    "dim",
    "expand",
    "expand_as",

    "indices",
    "is_coalesced",
    "is_contiguous",
    "is_leaf",
    "is_pinned",
    "is_set_to",
    "item",
    "mH",
    "mT",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "output_nr",
    "pin_memory",
    "record_stream",
    "refine_names",
    "rename",
    "repeat",
    "reshape_as",
    "resize",
    "resize_as",
    "retain_grad",
    "retains_grad",
    "row_indices",
    "size",
    "sparse_dim",
    "sparse_mask",
    "storage_offset",
    "stride",
    "sum_to_size",
    "to",
    "to_dense",
    "to_mkldnn",
    "to_padded_tensor",
    "to_sparse",
    "to_sparse_bsc",
    "to_sparse_bsr",
    "to_sparse_csc",
    "to_sparse_csr",
    "type_as",
    "unfold",
    "values",
    "view",
    "view_as",
};

/* aten::X with another name in Python, or without a public function (""). Sorted. */
static const struct other_name {
	const char *op, *name;
} other_names[] = {
    {"affine_grid_generator", "torch.nn.functional.affine_grid"},
    {"alias", ""},
    {"cauchy", ""},
    {"col2im", "torch.nn.functional.fold"},
    {"conv_depthwise3d", ""},
    {"convolution_overrideable", ""},
    {"copy", ""},
    {"copy_sparse_to_sparse", ""},
    {"copy_sparse_to_sparse_", ""},
    {"cross_entropy_loss", "torch.nn.functional.cross_entropy"},
    {"embedding_renorm", ""},
    {"embedding_renorm_", ""},
    {"exponential", ""},
    {"fake_quantize_per_channel_affine_cachemask", ""},
    {"fake_quantize_per_tensor_affine_cachemask", ""},
    {"feature_dropout_", "torch.feature_dropout_"},
    {"flatten_dense_tensors", ""},
    {"geometric", ""},
    {"glu_jvp", ""},
    {"grid_sampler", "torch.nn.functional.grid_sample"},
    {"im2col", "torch.nn.functional.unfold"},
    {"index", "torch.Tensor.__getitem__"},
    {"lift", ""},
    {"lift_fresh", ""},
    {"lift_fresh_copy", ""},
    {"log_normal", ""},
    {"log_sigmoid", "torch.nn.functional.logsigmoid"},
    {"log_sigmoid_forward", ""},
    {"matrix_H", "torch.Tensor.H"},
    {"mkldnn_linear", ""},
    {"mkldnn_reorder_conv2d_weight", ""},
    {"mkldnn_reorder_conv3d_weight", ""},
    {"multilabel_margin_loss_forward", ""},
    {"nested_to_padded_tensor", ""},
    {"nll_loss2d", "torch.nn.functional.nll_loss"},
    {"nll_loss2d_forward", ""},
    {"nll_loss_forward", ""},
    {"nll_loss_nd", "torch.nn.functional.nll_loss"},
    {"nonzero_numpy", ""},
    {"normal_functional", ""},
    {"numpy_T", "torch.Tensor.T"},
    {"pad_sequence", "torch.nn.utils.rnn.pad_sequence"},
    {"reflection_pad1d", "torch.nn.functional.pad"},
    {"reflection_pad2d", "torch.nn.functional.pad"},
    {"reflection_pad3d", "torch.nn.functional.pad"},
    {"replication_pad1d", "torch.nn.functional.pad"},
    {"replication_pad2d", "torch.nn.functional.pad"},
    {"replication_pad3d", "torch.nn.functional.pad"},
    {"resize_as_sparse", ""},
    {"rrelu_with_noise", ""},
    {"rrelu_with_noise_", ""},
    {"rrelu_with_noise_functional", ""},
    {"set", ""},
    {"set_data", ""},
    {"slice", "torch.Tensor.__getitem__"},
    {"slow_conv3d", ""},
    {"slow_conv3d_forward", ""},
    {"slow_conv_dilated2d", ""},
    {"slow_conv_dilated3d", ""},
    {"slow_conv_transpose2d", ""},
    {"slow_conv_transpose3d", ""},
    {"sparse_resize", ""},
    {"sparse_resize_and_clear", ""},
    {"sparse_sampled_addmm", "torch.sparse.sampled_addmm"},
    {"sym_is_contiguous", ""},
    {"sym_numel", ""},
    {"sym_size", ""},
    {"sym_storage_offset", ""},
    {"sym_stride", ""},
    {"thnn_conv2d", ""},
    {"unflatten_dense_tensors", ""},
    {"uniform", ""},
    {"unique_dim", "torch.unique"},
    {"unique_dim_consecutive", "torch.unique_consecutive"},
    {"upsample_bicubic2d", "torch.nn.functional.interpolate"},
    {"upsample_bilinear2d", "torch.nn.functional.interpolate"},
    {"upsample_linear1d", "torch.nn.functional.interpolate"},
    {"upsample_nearest1d", "torch.nn.functional.interpolate"},
    {"upsample_nearest2d", "torch.nn.functional.interpolate"},
    {"upsample_nearest3d", "torch.nn.functional.interpolate"},
    {"upsample_trilinear3d", "torch.nn.functional.interpolate"},
    {"zero", ""},
};

/* Python functions whose arguments differ from those of aten::X in kind or order, or that return
 * less: torch.nn.functional.X unless noted. Sorted. Sources: torch/nn/functional.py and
 * torch/functional.py of 1.13.1 and 2.13.0, against native_functions.yaml. */
static const char *const of_other_arguments[] = {
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "block_diag", /* torch.block_diag */
    "cdist",	  /* torch.cdist */
    "cosine_embedding_loss",
    "ctc_loss",
    "data", /* this and five more: attributes of torch.Tensor */
    "embedding",
    "embedding_bag",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "is_leaf",
    "kl_div",
    "l1_loss",
    "log_softmax",
    "mH",
    "mT",
    "margin_ranking_loss",
    "max_unpool2d",
    "max_unpool3d",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "nll_loss",
    "output_nr",
    "poisson_nll_loss",
    "retains_grad",
    "rrelu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "stft",	 /* torch.stft */
    "tensordot", /* torch.tensordot */
    "triplet_margin_loss",
};

/* Modules whose name prefixes that of the operator: torch.linalg.det is aten::linalg_det. */
static const char *const prefixed[] = {"linalg", "fft", "special"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool equal(struct span a, const char *b)
{
	return strlen(b) == a.len && !memcmp(a.s, b, a.len);
}

/* Compares with the string that is the first member of an array element. */
static int by_name(const void *key, const void *element)
{
	const struct span *k = key;
	const char *name = *(const char *const *)element;
	int c = strncmp(k->s, name, k->len);
	return c ? c : name[k->len] ? -1 : 0;
}

static bool listed(struct span name, const char *const *list, size_t n)
{
	return bsearch(&name, list, n, sizeof(*list), by_name) != NULL;
}

/* "add_" of "aten::add_.Tensor"; empty for other namespaces. */
static struct span base_of(const struct op_desc *op)
{
	struct span b = {"", 0};
	if (op->kind == OP_DISPATCHED && !strncmp(op->name, "aten::", 6)) {
		b.s = op->name + 6;
		b.len = strcspn(b.s, ".");
	}
	return b;
}

bool opnames_is_ditorch(const char *name)
{
	return !strncmp(name, "torch.", 6);
}

static bool is_named(const struct op_desc *op, struct span base)
{
	struct span b = base_of(op);
	return b.len == base.len && b.len && !memcmp(b.s, base.s, b.len);
}

static bool is_any_of(const struct op_desc *op, const char *names)
{
	while (*names) {
		struct span one = {names, strcspn(names, " ")};
		if (is_named(op, one))
			return true;
		names += one.len;
		names += strspn(names, " ");
	}
	return false;
}

/* "linear" of "torch.nn.functional.linear", with the module before it ("nn.functional", or nothing)
 * in `module`. An attribute getter, "torch.Tensor.T.__get__", is treated as the attribute. */
static struct span split(struct span name, struct span *module)
{
	static const char get[] = ".__get__";
	if (name.len > sizeof(get) &&
	    !memcmp(name.s + name.len - sizeof(get) + 1, get, sizeof(get) - 1))
		name.len -= sizeof(get) - 1;
	struct span last = {name.s + name.len, 0};
	while (last.s > name.s && last.s[-1] != '.')
		last.s--, last.len++;
	size_t skip = strlen("torch.");
	*module = (struct span){name.s + skip, 0};
	if ((size_t)(last.s - name.s) > skip)
		module->len = (size_t)(last.s - name.s) - skip - 1;
	return last;
}

static bool is_prefixed(struct span module)
{
	for (size_t i = 0; i < COUNT(prefixed); i++)
		if (equal(module, prefixed[i]))
			return true;
	return false;
}

bool opnames_match(const char *name, const struct op_desc *op)
{
	struct span module, whole = {name, strlen(name)};
	char buffer[256];

	if (!opnames_is_ditorch(name) || op->kind != OP_DISPATCHED)
		return false;
	if (opnames_ditorch(op, buffer, sizeof(buffer)) && !strcmp(name, buffer))
		return true;
	struct span last = split(whole, &module);
	whole.len = (size_t)(last.s + last.len - name);
	const struct python_name *p =
	    bsearch(&whole, python_names, COUNT(python_names), sizeof(*python_names), by_name);
	if (p)
		return is_any_of(op, p->ops);
	if (is_prefixed(module)) {
		int n = snprintf(buffer, sizeof(buffer), "%.*s_%.*s", (int)module.len, module.s,
				 (int)last.len, last.s);
		return n > 0 && (size_t)n < sizeof(buffer) &&
		       is_named(op, (struct span){buffer, (size_t)n});
	}
	if (is_named(op, last))
		return true;
	struct span b = base_of(op);
	return equal(module, "nn.functional") && b.len == last.len + 1 && b.s[last.len] == '_' &&
	       !memcmp(b.s, last.s, last.len);
}

/* Operators without a public name in Python: "_to_copy", "tanh_backward". */
static bool is_internal(struct span b)
{
	bool is_dunder = b.len > 4 && !memcmp(b.s, "__", 2) && !memcmp(b.s + b.len - 2, "__", 2);
	char text[256];
	if (b.len >= sizeof(text))
		return true;
	memcpy(text, b.s, b.len);
	text[b.len] = '\0';
	return (b.s[0] == '_' && !is_dunder) || strstr(text, "_backward");
}

static const char *module_of(struct span *b)
{
	struct span bare = {b->s, b->len - 1};

	for (size_t i = 0; i < COUNT(prefixed); i++) {
		size_t n = strlen(prefixed[i]);
		if (b->len > n + 1 && !memcmp(b->s, prefixed[i], n) && b->s[n] == '_') {
			b->s += n + 1;
			b->len -= n + 1;
			return prefixed[i];
		}
	}
	if (listed(*b, functional, COUNT(functional)))
		return "nn.functional";
	if (b->s[b->len - 1] == '_' && listed(bare, functional, COUNT(functional))) {
		*b = bare; /* torch.nn.functional.silu(x, inplace=True) */
		return "nn.functional";
	}
	if (b->s[b->len - 1] == '_' || listed(*b, methods, COUNT(methods)))
		return "Tensor";
	return "";
}

bool opnames_ditorch(const struct op_desc *op, char *out, size_t size)
{
	struct span b = base_of(op);

	if (size)
		out[0] = '\0';
	if (!b.len || !size)
		return false;
	const struct other_name *other =
	    bsearch(&b, other_names, COUNT(other_names), sizeof(*other_names), by_name);
	if (other) {
		int n = snprintf(out, size, "%s", other->name);
		return n > 0 && (size_t)n < size;
	}
	if (is_internal(b))
		return false;
	const char *module = module_of(&b);
	int n = snprintf(out, size, "torch.%s%s%.*s", module, *module ? "." : "", (int)b.len, b.s);
	return n > 0 && (size_t)n < size;
}

/* The dispatcher's name, or a backward node's own name. */
static bool name_of_operator(const struct op_desc *op, char *out, size_t size)
{
	const char *colons = strstr(op->name, "::");
	int n;

	if (op->kind != OP_DISPATCHED || !colons)
		n = snprintf(out, size, "%s", op->name);
	else
		n = snprintf(out, size, "torch.ops.%.*s.%s%s", (int)(colons - op->name), op->name,
			     colons + 2, strchr(colons + 2, '.') ? "" : ".default");
	if (n > 0 && (size_t)n < size)
		return true;
	if (size)
		out[0] = '\0';
	return false;
}

bool opnames_python(const struct op_desc *op, char *out, size_t size)
{
	return opnames_ditorch(op, out, size) || name_of_operator(op, out, size);
}

/* Whether Python's function differs from the operator in name only: not if its arguments differ, or
 * an argument makes it in-place. */
static bool is_operator_itself(struct span b)
{
	struct span bare = {b.s, b.len - 1};

	if (bsearch(&b, other_names, COUNT(other_names), sizeof(*other_names), by_name))
		return false;
	if (listed(b, of_other_arguments, COUNT(of_other_arguments)))
		return false;
	return b.s[b.len - 1] != '_' || listed(b, functional, COUNT(functional)) ||
	       !listed(bare, functional, COUNT(functional));
}

bool opnames_callable(const struct op_desc *op, char *out, size_t size)
{
	struct span b = base_of(op);

	if (b.len && is_operator_itself(b) && opnames_ditorch(op, out, size))
		return true;
	return name_of_operator(op, out, size);
}
