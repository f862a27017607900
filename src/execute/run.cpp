// SPDX-License-Identifier: Apache-2.0
#include "execute/run.h"

#include "aten/types.h"
#include "base/error.h"
#include "checkpoint/tensor_file.h"
#include "execute/communicator.h"
#include "execute/executor.h"
#include "execute/tensor_piece.h"
#include "program/piece.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

namespace weft {
namespace {

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
        arena_(options.budget_bytes),
        team_(team_of(program, rank)),
        executor_(program, rank, world, arena_, options.seed) {}

  std::optional<RunResult> run() {
    load_inputs();
    RunResult result;
    Timeline timeline;
    for (int64_t number = 0; number < options_.steps; ++number) {
      if (number > 0) {
        load_batch();
      }
      const bool is_last = number + 1 == options_.steps;
      if (is_last) {
        timeline = executor_.run_timed(number);
      } else {
        executor_.run(number);
      }
      for (size_t i = 0; i < function().outputs.size(); ++i) {
        if (function().outputs[i].kind == OutputKind::Loss) {
          result.losses.push_back(executor_.outputs()[i].item<double>());
        }
      }
    }
    gather_timeline(timeline, result);
    result.used_bytes = executor_.used_bytes();
    result.overflow_bytes = executor_.overflow_bytes();
    if (!options_.outputs.empty()) {
      write_outputs();
    }
    return rank_ == 0 ? std::optional(std::move(result)) : std::nullopt;
  }

 private:
  const Block& block() const { return executor_.block(); }
  const Function& function() const { return block().function; }

  const Layout& layout(ValueId value) const {
    return block().layouts[index(value)];
  }

  void load_inputs() const {
    for (size_t i = 0; i < function().inputs.size(); ++i) {
      if (function().inputs[i].kind != InputKind::Constant) {
        load(function().inputs[i], executor_.inputs()[i]);
      }
    }
  }

  // Its memory may have been used for other things.
  void load_batch() const {
    for (size_t i = 0; i < function().inputs.size(); ++i) {
      if (function().inputs[i].kind == InputKind::Batch) {
        load(function().inputs[i], executor_.inputs()[i]);
      }
    }
  }

  void load(const Input& input, const at::Tensor& into) const {
    const TensorType& type = function()[input.value].type;
    const std::string name = resident_name(input);
    if (input.kind == InputKind::State && !file_.has(name)) {
      return;
    }
    const TensorType wanted = make_type(
        type.dtype, whole_sizes(type, layout(input.value), team_.mesh));
    WEFT_CHECK_USER(
        file_.type(name) == wanted,
        options_.inputs,
        ": ",
        quote(name),
        " is ",
        print(file_.type(name)),
        ", and the program takes ",
        print(wanted));
    at::Tensor whole = at::empty(wanted.sizes, into.scalar_type());
    const std::span<const std::byte> bytes = file_.bytes(name);
    std::memcpy(whole.data_ptr(), bytes.data(), bytes.size());
    into.copy_(piece_of_tensor(whole, layout(input.value), team_, rank_));
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

  void write_outputs() {
    std::vector<TensorFileEntry> entries;
    std::vector<at::Tensor> tensors;
    for (const HeldOutput& output : held_outputs(program_)) {
      const std::string name =
          output.key.empty() ? std::string(weft::name(output.kind))
                             : cat(weft::name(output.kind), "/", output.key);
      const at::Tensor tensor = whole(output);
      if (rank_ == 0) {
        tensors.push_back(tensor.contiguous());
        entries.push_back({name, type_of(tensors.back())});
      }
    }
    if (rank_ == 0) {
      TensorFileWriter file(options_.outputs, entries);
      for (const at::Tensor& tensor : tensors) {
        file.write(
            {static_cast<const std::byte*>(tensor.const_data_ptr()),
             tensor.nbytes()});
      }
      file.finish();
    }
  }

  at::Tensor whole(const HeldOutput& output) {
    at::Tensor mine;
    for (size_t i = 0; i < function().outputs.size(); ++i) {
      const Output& one = function().outputs[i];
      if (one.kind == output.kind && one.key == output.key) {
        mine = executor_.outputs()[i];
      }
    }
    if (is_everywhere(output.holding)) {
      return mine;
    }
    if (!everybody_) {
      std::vector<int64_t> all(static_cast<size_t>(rank_count(program_)));
      std::iota(all.begin(), all.end(), 0);
      everybody_ = world_->group(all);
    }
    return gather_whole(*everybody_, mine, output.holding);
  }

  const Program& program_;
  const int64_t rank_;
  World* const world_;
  const RunOptions& options_;
  const TensorFileReader file_;
  Arena arena_;
  const Team team_;
  Executor executor_;
  std::unique_ptr<Communicator> everybody_;
};

}  // namespace

std::optional<RunResult> run(
    const Program& program,
    const Rendezvous& rendezvous,
    const RunOptions& options) {
  WEFT_CHECK_USER(
      rendezvous.size == rank_count(program),
      "program @",
      program.name,
      " is for ",
      rank_count(program),
      " rank(s), and ",
      rendezvous.size,
      " are running");
  at::set_num_threads(options.threads);
  std::unique_ptr<World> world;
  if (rendezvous.size > 1) {
    world = connect(rendezvous);
  }
  return Run(program, rendezvous.rank, world.get(), options).run();
}

}  // namespace weft
