// SPDX-License-Identifier: Apache-2.0
#include "capture/recorder.h"

#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/composite_call.h"
#include "capture/ctc_call.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/node.h>
#include <torch/library.h>

namespace weft {
namespace {

thread_local std::shared_ptr<Recorder> active;

void intercept(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  if (!active) {
    const c10::impl::ExcludeDispatchKeyGuard guard(kRecordingKey);
    op.redispatchBoxed(below(keys), stack);
    return;
  }
  try {
    active->call(op, keys, stack);
  } catch (const UserError& error) {
    // PyTorch makes another error of it on its way to Python.
    active->keep_refusal(error.what());
    throw;
  }
}

// A composite operator is taken apart above the recorder.
void intercept_composite(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet /*keys*/,
    torch::jit::Stack* stack) {
  if (active && c10::impl::tls_is_dispatch_key_included(kRecordingKey)) {
    if (auto result = call_in_other_words(op, *stack)) {
      replace_arguments(op, stack, {*std::move(result)});
      return;
    }
  }
  op.callBoxedForDispatchKey(
      c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// Installed at the first recording rather than by a static constructor, so that
// a static library cannot lose it.
void install_interceptor() {
  static torch::Library* const library = [] {
    auto* made = new torch::Library(
        torch::Library::IMPL,
        "_",
        kRecordingKey,
        __FILE__,
        static_cast<uint32_t>(__LINE__));
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
    return made;
  }();
  static torch::Library* const composites = [] {
    auto* made = new torch::Library(
        torch::Library::IMPL,
        "aten",
        c10::DispatchKey::AutogradCPU,
        __FILE__,
        static_cast<uint32_t>(__LINE__));
    for (const char* name : kComposites) {
      made->impl(
          name,
          torch::CppFunction::makeFromBoxedFunction<&intercept_composite>());
    }
    return made;
  }();
  install_ctc_ops();
  (void)library;
  (void)composites;
}

}  // namespace

Recording::Recording(std::shared_ptr<Recorder> recorder)
    : before_(std::move(active)) {
  install_interceptor();
  active = std::move(recorder);
  c10::impl::tls_set_dispatch_key_included(kRecordingKey, true);
}

Recording::~Recording() {
  active = std::move(before_);
  c10::impl::tls_set_dispatch_key_included(kRecordingKey, active != nullptr);
}

RecordingPause::RecordingPause()
    : was_on_(c10::impl::tls_is_dispatch_key_included(kRecordingKey)) {
  c10::impl::tls_set_dispatch_key_included(kRecordingKey, false);
}

RecordingPause::~RecordingPause() {
  c10::impl::tls_set_dispatch_key_included(kRecordingKey, was_on_);
}

Recorder::Recorder(RecordMode mode, std::optional<ScriptGenerators> earlier)
    : mode_(mode),
      now_{{}, {}, make_table(now_)},
      before_{{}, {}, make_table(before_)},
      generators_before_(std::move(earlier)) {}

StorageTable Recorder::make_table(Tape& tape) {
  return StorageTable(
      [this, &tape](auto&&... args) { return emit_to(tape, args...); });
}

void Recorder::begin_function(std::string name, Phase phase) {
  before_.function = std::move(now_.function);
  before_.names = std::move(now_.names);
  before_.table.take_records(now_.table);
  now_.function = Function{};
  now_.function.name = std::move(name);
  now_.names = NameTable();
  phase_ = phase;
  generators_ =
      ScriptGenerators(generators_before_ ? &*generators_before_ : nullptr);
  path_of_sequence_.clear();
  known_.clear();
  read_.clear();
  next_rng_ = 0;
  forward_indexed_ = false;
  forward_by_signature_.clear();
  first_of_.clear();
  written_at_.clear();
}

ValueId Recorder::bind(Tape& tape, const at::Tensor& tensor, Input input) {
  const std::string stem = input.kind == InputKind::Batch
                               ? "batch." + input.keys.front()
                               : input.keys.front();
  input.value =
      add_value(tape.function, tape.names.unique("", stem), type_of(tensor));
  const ValueId value = input.value;
  tape.function.inputs.push_back(std::move(input));
  tape.table.add(tensor, value);
  if (!is_hollow(tensor)) {
    observe_storage(tensor, weak_from_this());
  }
  return value;
}

ValueId Recorder::bind_input(const at::Tensor& tensor, Input input) {
  check_kind(tensor);
  return bind(now_, tensor, std::move(input));
}

std::optional<ValueId> Recorder::value_before(const at::Tensor& tensor) {
  return before_.table.find(tensor);
}

ValueId Recorder::value_of(const at::Tensor& tensor) {
  if (!is_hollow(tensor)) {
    check_kind(tensor);
  }
  if (const auto value = now_.table.find(tensor)) {
    return *value;
  }
  if (const auto before = before_.table.find(tensor)) {
    return add_unnamed(tensor, *before);
  }
  if (is_hollow(tensor)) {
    refused_storage_ = tensor.storage().unsafeGetStorageImpl();
    refuse(
        false,
        cat("[capture] the step reads a tensor that an earlier step made",
            in_module(),
            ", and what a step leaves behind is not kept. Register it with "
            "register_buffer and write into it with copy_"));
  }
  if (phase_ != Phase::Init && c10::GradMode::is_enabled()) {
    check_history(tensor);
  }
  return add_constant(tensor);
}

ValueId Recorder::add_unnamed(const at::Tensor& tensor, ValueId before) {
  const std::string key = cat("unnamed.", unnamed_++);
  before_.function.outputs.push_back({OutputKind::Buffer, key, before});
  written_at_.emplace(tensor.storage().unsafeGetStorageImpl(), std::nullopt);
  // The model does not know it.
  return bind_input(
      tensor,
      {.kind = InputKind::Buffer,
       .keys = {key},
       .trained = false,
       .saved = std::vector<std::string>()});
}

ValueId Recorder::add_constant(const at::Tensor& tensor) {
  const RecordingPause pause;
  const at::Tensor dense =
      tensor.detach().resolve_conj().resolve_neg().contiguous();
  Constant constant;
  constant.name = cat("constant.", constants_.size());
  constant.type = type_of(dense);
  constant.bytes.assign(
      static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
  const ValueId value = bind_input(
      tensor,
      {.kind = InputKind::Constant, .keys = {constant.name}, .trained = false});
  constants_.push_back(std::move(constant));
  kept_.push_back(tensor);
  written_at_.emplace(tensor.storage().unsafeGetStorageImpl(), std::nullopt);
  if (mode_ == RecordMode::Hollow) {
    known_[static_cast<int32_t>(value)] = dense.clone();
  }
  return value;
}

std::vector<Constant> Recorder::take_constants() {
  return std::move(constants_);
}

const at::Tensor& Recorder::constant(const std::string& name) const {
  for (size_t i = 0; i < constants_.size(); ++i) {
    if (constants_[i].name == name) {
      return kept_[i];
    }
  }
  throw InternalError(cat("no constant ", name));
}

void Recorder::verify_writes() {
  closed_ = true;
  for (size_t i = 0; i < kept_.size(); ++i) {
    const c10::StorageImpl* storage = kept_[i].storage().unsafeGetStorageImpl();
    if (!written_at_[storage]) {
      continue;
    }
    if (mode_ == RecordMode::Real) {
      const RecordingPause pause;
      const at::Tensor before = at::from_blob(
          constants_[i].bytes.data(),
          constants_[i].type.sizes,
          kept_[i].scalar_type());
      kept_[i].detach().copy_(before);
    }
    // One that the step made itself (torch.tensor) goes with it.
    const auto held = kept_[i].storage().getWeakStorageImpl();
    kept_[i].reset();
    if (held.expired()) {
      written_at_.erase(storage);
    }
  }
  closed_ = false;
  for (const auto& [storage, line] : written_at_) {
    if (line) {
      refused_storage_ = storage;
      refuse(
          false,
          "[capture] the step writes into a tensor that is neither a "
          "parameter nor a buffer, and what it writes would be lost. Register "
          "it with register_buffer",
          *line);
    }
  }
}

void Recorder::push_module(std::string path) {
  modules_.push_back(std::move(path));
}

void Recorder::pop_module() {
  WEFT_CHECK(!modules_.empty());
  modules_.pop_back();
}

Phase Recorder::current_phase() const {
  if (phase_ != Phase::Backward) {
    return phase_;
  }
  // The engine runs backward with gradients off; what runs with them on is
  // forward work done again.
  const bool again = c10::GradMode::is_enabled() &&
                     torch::autograd::get_current_node() != nullptr;
  return again ? Phase::Recompute : Phase::Backward;
}

std::string Recorder::current_path(const Node& node) {
  const bool by_rule = path_rule_ && phase_ == Phase::Forward;
  if (!modules_.empty() || by_rule) {
    std::string path =
        modules_.empty() ? path_rule_(now_.function, node) : modules_.back();
    if (phase_ == Phase::Forward) {
      // The call's autograd node, if it has one, is the newest.
      path_of_sequence_.try_emplace(at::sequence_number::peek(), path);
    }
    return path;
  }
  if (phase_ == Phase::Backward) {
    if (const auto running = torch::autograd::get_current_node()) {
      // A node made while `peek` was n has the number n - 1.
      const auto found = path_of_sequence_.find(running->sequence_nr() + 1);
      if (found != path_of_sequence_.end()) {
        return found->second;
      }
    }
  }
  return "";
}

std::vector<ValueId> Recorder::emit(
    Node node, const std::string& stem, const std::vector<TensorType>& types) {
  return emit_to(now_, std::move(node), stem, types);
}

std::vector<ValueId> Recorder::emit_to(
    Tape& tape,
    Node node,
    const std::string& stem,
    const std::vector<TensorType>& types) {
  const bool finished = &tape == &before_;
  node.phase = finished ? Phase::Init : current_phase();
  node.releases.clear();
  const std::string path = finished ? "" : current_path(node);
  std::vector<std::string> names;
  names.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(tape.names.unique(path, stem));
  }
  const NodeId id = add_node(tape.function, std::move(node), names, types);
  return tape.function.nodes[index(id)].results;
}

std::vector<ValueId> Recorder::append(
    Node node, const OpInfo& info, const std::vector<TensorType>& types) {
  if (info.random) {
    const int64_t number = rng_number(node);
    node.options.push_back({std::string(kRngOption), {number}});
  }
  if (forward_indexed_ && current_phase() == Phase::Recompute) {
    const auto found = forward_by_signature_.find(signature(node));
    std::vector<ValueId> results = emit(std::move(node), info.stem, types);
    if (found != forward_by_signature_.end() && !found->second.empty()) {
      const Node& first = now_.function.nodes[index(found->second.front())];
      found->second.erase(found->second.begin());
      for (size_t i = 0; i < results.size(); ++i) {
        first_of_[static_cast<int32_t>(results[i])] = first.results[i];
      }
    }
    return results;
  }
  return emit(std::move(node), info.stem, types);
}

std::string Recorder::signature(const Node& node) const {
  Node mapped = node;
  const std::function<void(Arg&)> map = [&](Arg& arg) {
    if (auto* id = std::get_if<ValueId>(&arg.data)) {
      const auto found = first_of_.find(static_cast<int32_t>(*id));
      if (found != first_of_.end()) {
        *id = found->second;
      }
    } else if (auto* list = std::get_if<Arg::List>(&arg.data)) {
      for (Arg& item : *list) {
        map(item);
      }
    }
  };
  for (Arg& arg : mapped.args) {
    map(arg);
  }
  std::erase_if(mapped.options, [](const Option& option) {
    return option.name == kRngOption;
  });
  for (Option& option : mapped.options) {
    map(option.value);
  }
  mapped.results.clear();
  mapped.releases.clear();
  mapped.overwrites = ValueId::None;
  return print(now_.function, mapped);
}

void Recorder::index_forward() {
  forward_indexed_ = true;
  for (size_t i = 0; i < now_.function.nodes.size(); ++i) {
    const Node& node = now_.function.nodes[i];
    if (node.phase == Phase::Forward) {
      forward_by_signature_[signature(node)].push_back(static_cast<NodeId>(i));
    }
  }
}

int64_t Recorder::rng_number(const Node& node) {
  if (current_phase() == Phase::Recompute) {
    const auto found = forward_by_signature_.find(signature(node));
    if (found != forward_by_signature_.end() && !found->second.empty()) {
      const Node& first = now_.function.nodes[index(found->second.front())];
      return std::get<int64_t>(find_option(first, kRngOption)->data);
    }
  }
  return next_rng_++;
}

void Recorder::storage_released(const c10::StorageImpl* storage) {
  if (closed_) {
    return;
  }
  written_at_.erase(storage);
  before_.table.remove(storage);
  const auto value = now_.table.remove(storage);
  if (value && !now_.function.nodes.empty() && phase_ != Phase::Init) {
    now_.function.nodes.back().releases.push_back(*value);
  }
}

void Recorder::keep_refusal(const std::string& message) {
  if (!refusal_ || refusal_->message != message) {
    refuse(false, message);
  }
}

void Recorder::refuse(bool needs_values, std::string message) {
  refuse(needs_values, std::move(message), needs_values ? "" : place());
}

void Recorder::refuse(
    bool needs_values, std::string message, const std::string& line) {
  if (!line.empty()) {
    message += cat("\n  at ", line);
  }
  refusal_ = Refusal{needs_values, std::move(message)};
  throw UserError(refusal_->message);
}

}  // namespace weft
