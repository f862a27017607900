// SPDX-License-Identifier: Apache-2.0
#include "execute/random_kernel.h"

#include "aten/call.h"
#include "base/error.h"
#include "execute/random_values.h"
#include "ops/call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <memory>
#include <utility>

namespace weft {
namespace {

class RandomKernel {
 public:
  explicit RandomKernel(KernelArguments arguments)
      : node_(arguments.node),
        rng_(int_option(arguments.node, kRngOption, 0)),
        operands_(std::move(arguments.operands)),
        results_(std::move(arguments.results)),
        piece_(std::move(arguments.piece)),
        draw_(find_draw(node_)) {
    if (draw_ == nullptr) {
      call_.emplace(node_);
      for (const Piece& dim : piece_) {
        WEFT_CHECK(dim.size == dim.whole, node_.op, " cannot be split");
      }
    }
    // Elements are counted in row-major order, however they lie.
    for (const at::Tensor& result : results_) {
      made_.push_back(
          result.is_contiguous() ? result
                                 : at::empty(result.sizes(), result.options()));
    }
  }

  void run(const StepContext& context) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const RandomStream stream{
        context.seed,
        static_cast<uint32_t>(context.step),
        static_cast<uint32_t>(rng_)};
    if (draw_ != nullptr) {
      draw_({node_, operands_, made_, piece_, stream});
    } else {
      call(stream);
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!made_[i].is_same(results_[i])) {
        results_[i].copy_(made_[i]);
      }
    }
  }

 private:
  // The default generator is left as it was: it is the user's.
  void call(const RandomStream& stream) {
    uint32_t words[2];
    random_words(stream, 0, 2, words);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const at::Tensor before = generator.get_state();
    generator.set_current_seed(uint64_t{words[0]} << 32 | words[1]);
    const std::vector<at::Tensor> drawn = (*call_)(operands_);
    generator.set_state(before);
    WEFT_CHECK(drawn.size() == made_.size(), node_.op);
    for (size_t i = 0; i < drawn.size(); ++i) {
      made_[i].copy_(drawn[i]);
    }
  }

  const Node node_;
  const int64_t rng_;
  std::vector<at::Tensor> operands_;
  std::vector<at::Tensor> results_;
  const std::vector<Piece> piece_;
  const DrawFunction draw_;
  std::optional<AtenCall> call_;
  std::vector<at::Tensor> made_;
};

}  // namespace

Kernel bind_random_kernel(KernelArguments arguments) {
  auto kernel = std::make_shared<RandomKernel>(std::move(arguments));
  return [kernel](const StepContext& context) { kernel->run(context); };
}

}  // namespace weft
