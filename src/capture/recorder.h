// SPDX-License-Identifier: Apache-2.0
// Writes down every operator call of the thread into a Function.
//
// While a Recording is in scope, each ATen call of this thread, those of
// autograd's backward included, arrives here below autograd. In Hollow mode no
// kernel runs: results are hollow tensors whose types come from the op table or
// from PyTorch's shape kernels. In Real mode the CPU kernels run, for models
// that read values while they run.
//
// Not thread-safe; one Recording at a time in a thread.
#pragma once

#include "capture/hollow.h"
#include "capture/op_info.h"
#include "capture/script_generators.h"
#include "capture/storage_table.h"
#include "graph/graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace weft {

enum class RecordMode { Hollow, Real };

// Why a model cannot be captured, kept apart from the exception because Python
// turns C++ exceptions into its own.
struct Refusal {
  // Another try in Real mode may work.
  bool needs_values = false;
  std::string message;
};

class Recorder : public StorageObserver,
                 public std::enable_shared_from_this<Recorder> {
 public:
  // `earlier` are those of a capture of the same step just before
  // (ScriptGenerators).
  explicit Recorder(
      RecordMode mode, std::optional<ScriptGenerators> earlier = std::nullopt);

  RecordMode mode() const { return mode_; }

  // Starts a function. The one before stays open for what is still asked of
  // it: a tensor made there and read here, without having been bound, becomes
  // an input called "unnamed.N" here and an output there.
  void begin_function(std::string name, Phase phase);
  Function& function() { return now_.function; }
  NameTable& names() { return now_.names; }
  Function& function_before() { return before_.function; }

  // Throws UserError for a tensor of a kind that a Graph does not have: sparse,
  // of a subclass with elements elsewhere, not on the CPU.
  void check_kind(const at::Tensor& tensor);

  // Makes the tensor an input of the function.
  ValueId bind_input(const at::Tensor& tensor, Input input);

  // The value that the tensor holds now. A tensor made outside becomes a
  // constant.
  ValueId value_of(const at::Tensor& tensor);
  // Likewise; none where the tensor was made outside.
  std::optional<ValueId> value_if_any(const at::Tensor& tensor) {
    return now_.table.find(tensor);
  }
  // Its value in the function before, if it was made there.
  std::optional<ValueId> value_before(const at::Tensor& tensor);

  std::vector<Constant> take_constants();
  // The tensor behind a constant.
  const at::Tensor& constant(const std::string& name) const;
  // Throws UserError when the step has written into a tensor that was there
  // before it, is there after it, and is neither a parameter nor a buffer.
  void verify_writes();

  // No more is recorded: storages that end from here on are not releases.
  void close() { closed_ = true; }

  // The module whose forward is running; paths are "blocks.0.attn".
  void push_module(std::string path);
  void pop_module();
  // For a front end that is not told which module is running: gives the path of
  // a forward node from the node itself and the function so far.
  using PathRule = std::function<std::string(const Function&, const Node&)>;
  void set_path_rule(PathRule rule) { path_rule_ = std::move(rule); }
  void set_phase(Phase phase) { phase_ = phase; }

  // Appends a node made by hand (the optimizer's).
  std::vector<ValueId> emit(
      Node node, const std::string& stem, const std::vector<TensorType>& types);

  // Fills the tensor by an operator of ours: `node` without its first operand,
  // which is the tensor.
  void fill(const at::Tensor& tensor, Node node, const std::string& stem);

  // The tensor's elements, when they depend on no parameter and no batch;
  // undefined otherwise.
  at::Tensor known_elements(const at::Tensor& tensor);

  // The tensor's elements, of which the step then is the step for these alone:
  // a guard compares them. In Hollow mode where they are not known: asks for a
  // recording with values. Undefined where no guard could hold for long: they
  // follow from parameters or from random numbers.
  at::Tensor read_elements(const at::Tensor& tensor);

  // Whether both hold one value, or values that equal calls computed from one.
  bool is_same_value(const at::Tensor& one, const at::Tensor& other);

  // Tells which line of the model is running, "model.py:7: y = x[mask]", or "";
  // asked where a value is read and where the capture is refused.
  using Place = std::function<std::string()>;
  void set_place(Place place) { place_ = std::move(place); }

  const ScriptGenerators& script_generators() const { return generators_; }

  const std::optional<Refusal>& refusal() const { return refusal_; }
  // The storage that a refusal is about, for who knows its name.
  const c10::StorageImpl* refused_storage() const { return refused_storage_; }

  // Records as the refusal of this capture a UserError that was thrown while a
  // call was recorded, and throws it again with the line that is running.
  void keep_refusal(const std::string& message);

  // Called by the dispatcher's fallback.
  void call(
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);

  void storage_released(const c10::StorageImpl* storage) override;

 private:
  // A function and what is needed to add to it.
  struct Tape {
    Function function;
    NameTable names;
    StorageTable table;
  };

  StorageTable make_table(Tape& tape);
  ValueId bind(Tape& tape, const at::Tensor& tensor, Input input);
  std::vector<ValueId> emit_to(
      Tape& tape,
      Node node,
      const std::string& stem,
      const std::vector<TensorType>& types);
  // `tensor` is one of the arguments.
  Arg arg_of(const at::Tensor& tensor, c10::ArrayRef<c10::IValue> arguments);
  ValueId add_constant(const at::Tensor& tensor);
  ValueId add_unnamed(const at::Tensor& tensor, ValueId before);
  Node make_node(const OpInfo& info, c10::ArrayRef<c10::IValue> arguments);
  std::vector<ValueId> append(
      Node node, const OpInfo& info, const std::vector<TensorType>& types);
  Phase current_phase() const;
  std::string current_path(const Node& node);

  void call_view(
      const OpInfo& info,
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);
  void call_mutation(
      const OpInfo& info,
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);
  void call_out(
      const OpInfo& info,
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);
  void call_compute(
      const OpInfo& info,
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);
  // Runs an operator whose result sizes depend on data, on the elements that
  // its operands have now, so that its results are constants. Returns false
  // where the elements cannot be read.
  bool call_by_elements(
      const c10::OperatorHandle& op, torch::jit::Stack* stack);
  // Runs a call that draws the same numbers in every step (ScriptGenerators),
  // so that they are constants. Returns false of other calls.
  bool call_with_script_numbers(
      const OpInfo& info,
      const c10::OperatorHandle& op,
      torch::jit::Stack* stack);
  // The elements of what such a call is given.
  at::Tensor drawn_from(const OpInfo& info, const at::Tensor& tensor);
  void call_value_read(
      const OpInfo& info,
      const c10::OperatorHandle& op,
      c10::DispatchKeySet keys,
      torch::jit::Stack* stack);
  // Remembers that a tensor which is no input was written into.
  void note_write(const at::Tensor& tensor);
  // Appends a guard that stops the step where `value` is not `expected`.
  void emit_guard(
      ValueId value,
      Arg expected,
      TensorType type,
      std::vector<Option> options = {});
  // What aten.equal has given: asked for in a way that can be guarded.
  void guard_equal(const at::Tensor& one, const at::Tensor& other);
  // The results' types without running anything.
  std::vector<c10::IValue> infer(
      const OpInfo& info,
      const Node& node,
      c10::ArrayRef<c10::IValue> arguments);
  // The same where shape kernels fail: runs the call, or asks for a recording
  // in which it can be run.
  std::vector<c10::IValue> infer_by_running(
      const OpInfo& info,
      c10::ArrayRef<c10::IValue> arguments,
      const std::string& why);
  // Of an op whose results may have any sizes: whether they are known here.
  bool has_known_types(const OpInfo& info, const Node& node) const;
  // What the op table says of the results; none where it does not know, or
  // where the operands do not fit.
  std::vector<TensorType> types_by_entry(const OpInfo& info, const Node& node);
  // Parts of it, and what is asked of single calls.
  void check_layout(const at::Tensor& tensor);
  void check_written(const OpInfo& info, const at::Tensor& tensor);
  void check_overlap(const OpInfo& info, c10::ArrayRef<c10::IValue> arguments);
  // A constant must not cut a path of gradients.
  void check_history(const at::Tensor& tensor);
  void check_sparse(const OpInfo& info, c10::ArrayRef<c10::IValue> arguments);
  [[noreturn]] void refuse(bool needs_values, std::string message);
  // Likewise, of a line that ran earlier.
  [[noreturn]] void refuse(
      bool needs_values, std::string message, const std::string& line);
  // " in module blocks.0", or "" outside of one: for messages.
  std::string in_module() const;
  std::string place() const { return place_ ? place_() : ""; }
  bool is_same_value(ValueId one, ValueId other) const;
  bool is_same_arg(const Arg& one, const Arg& other) const;
  bool follows_from_constants(ValueId value) const;
  bool follows_from_batch(ValueId value) const;
  void guard_elements(ValueId value, const at::Tensor& elements);

  // Small values that depend on no parameter and no batch are computed beside
  // the recording, so that code which reads them while the model is built
  // (`linspace(...).item()`) works without values for anything else.
  void compute_known(
      const OpInfo& info,
      c10::ArrayRef<c10::IValue> arguments,
      const std::vector<ValueId>& results);
  const at::Tensor* known(const at::Tensor& tensor);

  // A node repeated during backward by torch.utils.checkpoint draws the random
  // numbers of the forward node that it repeats.
  int64_t rng_number(const Node& node);
  void index_forward();
  std::string signature(const Node& node) const;

  RecordMode mode_;
  Tape now_;
  Tape before_;
  Phase phase_ = Phase::Forward;
  std::vector<std::string> modules_;
  PathRule path_rule_;
  Place place_;
  // Module path by autograd sequence number.
  std::unordered_map<uint64_t, std::string> path_of_sequence_;
  int64_t next_rng_ = 0;
  std::optional<ScriptGenerators> generators_before_;
  ScriptGenerators generators_;

  int64_t unnamed_ = 0;
  std::vector<Constant> constants_;
  // Real tensors that became constants stay alive, so that their addresses are
  // not used again.
  std::vector<at::Tensor> kept_;
  // Storages of constants and of tensors without a name; once the step has
  // written into one, the line that did.
  std::unordered_map<const c10::StorageImpl*, std::optional<std::string>>
      written_at_;
  std::unordered_map<int32_t, at::Tensor> known_;
  // Values that are guarded whole.
  std::unordered_set<int32_t> read_;
  // Layers repeat, and so do their calls.
  std::unordered_map<std::string, std::vector<TensorType>> types_of_call_;

  bool forward_indexed_ = false;
  std::unordered_map<std::string, std::vector<NodeId>> forward_by_signature_;
  std::unordered_map<int32_t, ValueId> first_of_;

  std::optional<Refusal> refusal_;
  const c10::StorageImpl* refused_storage_ = nullptr;
  bool closed_ = false;
};

// Sends the calls of this thread to the recorder while it lives.
class Recording {
 public:
  explicit Recording(std::shared_ptr<Recorder> recorder);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  std::shared_ptr<Recorder> before_;
};

// Lets calls through unrecorded while it lives.
class RecordingPause {
 public:
  RecordingPause();
  ~RecordingPause();
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  bool was_on_;
};

}  // namespace weft
