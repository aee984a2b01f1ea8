// A program without Python: ops of its own functions, of a thread, and of the backward of its Function.
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <cstdio>
#include <thread>
#include <torch/csrc/autograd/custom_function.h>

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Twice : torch::autograd::Function<Twice> {
	static at::Tensor forward(AutogradContext *, at::Tensor x)
	{
		return at::mul(x, 2); // FORWARD
	}
	static variable_list backward(AutogradContext *, variable_list g)
	{
		auto twice = at::mul(g[0], 2); // BACKWARD
		return {twice};
	}
};

__attribute__((noinline)) static at::Tensor layer(const at::Tensor &x, const at::Tensor &w)
{
	auto y = at::linear(x, w); // LINEAR
	return y;
}

int main()
{
	auto w = at::ones({8, 8}).set_requires_grad(true);
	for (int i = 0; i < 20; i++)
		Twice::apply(layer(at::ones({4, 8}), w)).sum().backward();
	std::thread thread([&] {
		auto y = at::relu(w); // THREAD
	});
	thread.join();
	printf("%g\n", w.grad().sum().item<double>());
}
