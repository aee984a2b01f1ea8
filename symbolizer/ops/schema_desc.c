/* From schemas to the event model: flags, names and types. */
#include "symbolizer/ops/schema.h"

#include <errno.h>
#include <string.h>

#include "symbolizer/event/event.h"

/* Operators that may draw random numbers but take no Generator: those tagged
 * nondeterministic_seeded in ATen/native/native_functions.yaml (2.13.0). Without overload or
 * trailing "_". */
static const char *const random_names[] = {
    "_cudnn_attention_backward",
    "_cudnn_attention_forward",
    "_cudnn_init_dropout_state",
    "_cudnn_rnn",
    "_efficient_attention_forward",
    "_fill_mem_eff_dropout_mask",
    "_flash_attention_forward",
    "_flash_attention_forward_no_dropout_inplace",
    "_fused_dropout",
    "_lstm_mps",
    "_sample_dirichlet",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_attention_math_for_mps",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_fused_attention_overrideable",
    "_standard_gamma",
    "_triton_scaled_dot_attention",
    "alpha_dropout",
    "bernoulli",
    "binomial",
    "cauchy",
    "dropout",
    "exponential",
    "feature_alpha_dropout",
    "feature_dropout",
    "geometric",
    "gru",
    "log_normal",
    "lstm",
    "miopen_rnn",
    "multinomial",
    "native_dropout",
    "normal",
    "normal_functional",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "rnn_relu",
    "rnn_tanh",
    "rrelu",
    "rrelu_with_noise",
    "rrelu_with_noise_functional",
    "scaled_dot_product_attention",
    "uniform",
};

static bool is_random_name(const char *name)
{
	size_t n = strlen(name);
	if (n > 1 && name[n - 1] == '_')
		n--;
	for (size_t i = 0; i < sizeof(random_names) / sizeof(random_names[0]); i++)
		if (strlen(random_names[i]) == n && !memcmp(random_names[i], name, n))
			return true;
	return false;
}

uint8_t schema_flags(const struct schema *s)
{
	uint8_t flags = 0;

	for (uint16_t i = 0; i < s->nargs; i++) {
		const struct schema_arg *arg = &s->args[i];
		if (arg->is_write)
			flags |= arg->kwarg_only ? OP_OUT : OP_INPLACE;
		if (arg->base == SCHEMA_GENERATOR)
			flags |= OP_RANDOM;
	}
	for (uint16_t i = 0; i < s->nreturns; i++)
		if (s->returns[i].alias && !s->returns[i].is_write)
			flags |= OP_VIEW;
	if (!strcmp(s->ns, "aten") && is_random_name(s->name))
		flags |= OP_RANDOM;
	return flags;
}

static const struct op_arg *op_args(const struct schema_arg *args, uint16_t n, struct arena *a)
{
	struct op_arg *out = arena_alloc(a, n * sizeof(*out) + 1);
	for (uint16_t i = 0; out && i < n; i++)
		out[i] = (struct op_arg){.name = args[i].name, .type = args[i].type};
	return out;
}

int schema_to_desc(const struct schema *s, struct arena *a, struct op_desc *out)
{
	struct schema *parsed = arena_alloc(a, sizeof(*parsed));
	if (!parsed)
		return -ENOMEM;
	*parsed = *s;
	out->kind = OP_DISPATCHED;
	out->flags = schema_flags(s);
	out->name = s->full_name;
	out->schema = s->text;
	out->parsed = parsed;
	out->nargs = s->nargs;
	out->nresults = s->nreturns;
	out->args = op_args(s->args, s->nargs, a);
	out->results = op_args(s->returns, s->nreturns, a);
	return out->args && out->results ? 0 : -ENOMEM;
}
