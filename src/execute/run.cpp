// SPDX-License-Identifier: Apache-2.0
#include "execute/run.h"

#include "aten/types.h"
#include "base/error.h"
#include "execute/communicator.h"
#include "execute/executor.h"
#include "execute/tensor_file.h"
#include "program/piece.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft {
namespace {

at::Tensor constant(const Program& program, const std::string& key) {
  for (const Constant& known : program.constants) {
    if (known.name == key) {
      at::Tensor tensor =
          at::empty(known.type.sizes, scalar_type_of(known.type.dtype));
      std::memcpy(tensor.data_ptr(), known.bytes.data(), known.bytes.size());
      return tensor;
    }
  }
  throw UserError(
      cat("program @", program.name, " has no constant ", quote(key)));
}

// The rank's part of a whole tensor, which it shares memory with.
at::Tensor piece(
    at::Tensor whole, const Layout& layout, const Mesh& mesh, int64_t rank) {
  for (size_t dim = 0; dim < layout.dims.size(); ++dim) {
    const auto d = static_cast<int64_t>(dim);
    const Piece mine = piece_of(mesh, layout.dims[dim], whole.size(d), rank);
    whole = whole.narrow(d, mine.start, mine.size);
  }
  return whole;
}

class Run {
 public:
  Run(const Program& program,
      int64_t rank,
      World* world,
      const RunOptions& options)
      : program_(program),
        rank_(rank),
        world_(world),
        options_(options),
        file_(options.inputs),
        executor_(program, rank, world, options.seed) {}

  std::optional<RunResult> run() {
    for (const Input& input : function().inputs) {
      inputs_.push_back(load(input));
    }
    RunResult result;
    Executor::Step step;
    for (int64_t number = 0; number < options_.steps; ++number) {
      step = executor_.run(take_inputs(), number);
      keep(step);
      for (size_t i = 0; i < function().outputs.size(); ++i) {
        if (function().outputs[i].kind == OutputKind::Loss) {
          result.losses.push_back(step.outputs[i].item<double>());
        }
      }
    }
    gather_timeline(step.timeline, result);
    if (!options_.outputs.empty()) {
      write_outputs(step);
    }
    return rank_ == 0 ? std::optional(std::move(result)) : std::nullopt;
  }

 private:
  const Block& block() const { return executor_.block(); }
  const Function& function() const { return block().function; }

  const Layout& layout(ValueId value) const {
    return block().layouts[index(value)];
  }

  at::Tensor load(const Input& input) const {
    const TensorType& type = function()[input.value].type;
    if (input.kind == InputKind::Constant) {
      return constant(program_, input.keys.front());
    }
    const std::string name =
        cat(weft::name(input.kind), "/", input.keys.front());
    if (input.kind == InputKind::State && !file_.has(name)) {
      return at::zeros(type.sizes, scalar_type_of(type.dtype));
    }
    const TensorType wanted = make_type(
        type.dtype, whole_sizes(type, layout(input.value), program_.mesh));
    WEFT_CHECK_USER(
        file_.type(name) == wanted,
        options_.inputs,
        ": ",
        quote(name),
        " is ",
        print(file_.type(name)),
        ", and the program takes ",
        print(wanted));
    // A copy, so that the whole is not kept. Strides other than row-major
    // come from the recorded model.
    at::Tensor mine = at::empty_strided(
        type.sizes, strides_of(type), scalar_type_of(type.dtype));
    mine.copy_(
        piece(file_.read(name), layout(input.value), program_.mesh, rank_));
    return mine;
  }

  // Gives away what the step replaces, so that its free really frees it.
  std::vector<at::Tensor> take_inputs() {
    std::vector<at::Tensor> taken;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool replaced =
          replacement_of(function(), function().inputs[i]) >= 0;
      taken.push_back(replaced ? std::move(inputs_[i]) : inputs_[i]);
    }
    return taken;
  }

  void keep(const Executor::Step& step) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int output = replacement_of(function(), function().inputs[i]);
      if (output >= 0) {
        inputs_[i] = step.outputs[static_cast<size_t>(output)];
      }
    }
  }

  void gather_timeline(const Timeline& mine, RunResult& result) const {
    if (world_ == nullptr) {
      result.timeline = mine;
      return;
    }
    result.timeline.program = program_.name;
    for (const std::string& text : world_->gather(print(mine))) {
      const Timeline part = parse_timeline(text, "<rank>");
      result.timeline.events.insert(
          result.timeline.events.end(), part.events.begin(), part.events.end());
    }
  }

  void write_outputs(const Executor::Step& step) const {
    std::vector<NamedOutput> whole;
    for (size_t i = 0; i < function().outputs.size(); ++i) {
      const Output& output = function().outputs[i];
      const std::string name =
          output.key.empty() ? std::string(weft::name(output.kind))
                             : cat(weft::name(output.kind), "/", output.key);
      at::Tensor tensor = gather_output(output.value, step.outputs[i]);
      if (rank_ == 0) {
        whole.push_back({name, std::move(tensor)});
      }
    }
    if (rank_ == 0) {
      write_tensor_file(options_.outputs, whole);
    }
  }

  at::Tensor gather_output(ValueId value, const at::Tensor& mine) const {
    const Layout& where = layout(value);
    const bool is_whole =
        std::all_of(where.dims.begin(), where.dims.end(), [](const auto& axes) {
          return axes.empty();
        });
    if (is_whole) {
      return mine;
    }
    const at::Tensor dense = mine.contiguous();
    const std::vector<std::string> pieces = world_->gather(std::string(
        static_cast<const char*>(dense.data_ptr()), dense.nbytes()));
    const TensorType& type = function()[value].type;
    at::Tensor whole = at::empty(
        whole_sizes(type, where, program_.mesh), scalar_type_of(type.dtype));
    for (size_t rank = 0; rank < pieces.size(); ++rank) {
      at::Tensor part = at::empty(type.sizes, scalar_type_of(type.dtype));
      std::memcpy(part.data_ptr(), pieces[rank].data(), pieces[rank].size());
      piece(whole, where, program_.mesh, static_cast<int64_t>(rank))
          .copy_(part);
    }
    return whole;
  }

  const Program& program_;
  const int64_t rank_;
  World* const world_;
  const RunOptions& options_;
  const TensorFile file_;
  Executor executor_;
  std::vector<at::Tensor> inputs_;
};

}  // namespace

std::optional<RunResult> run(
    const Program& program,
    const Rendezvous& rendezvous,
    const RunOptions& options) {
  WEFT_CHECK_USER(
      rendezvous.size == rank_count(program.mesh),
      "program @",
      program.name,
      " is for ",
      rank_count(program.mesh),
      " rank(s), and ",
      rendezvous.size,
      " are running");
  at::set_num_threads(options.threads);
  std::unique_ptr<World> world;
  if (rendezvous.size > 1) {
    world = connect_gloo(rendezvous);
  }
  return Run(program, rendezvous.rank, world.get(), options).run();
}

}  // namespace weft
