// SPDX-License-Identifier: Apache-2.0
// What the recorder does with each kind of call.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/complex_scalar.h"
#include "capture/composite_call.h"
#include "capture/recorder.h"
#include "ops/kernel.h"
#include "ops/split.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace weft {
namespace {

TensorType type_or_none(const at::Tensor& tensor) {
  // A result that was not asked for (a gradient masked out) keeps its place.
  return tensor.defined() ? type_of(tensor) : TensorType{DType::F32, {0}, {}};
}

std::vector<TensorType> types_in(const std::vector<at::Tensor>& tensors) {
  std::vector<TensorType> types;
  types.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    types.push_back(type_or_none(tensor));
  }
  return types;
}

// What is written into a part of a tensor has no gaps until it is there.
TensorType written_type(const at::Tensor& tensor) {
  TensorType type = type_of(tensor);
  return is_dense(type) ? type : with_sizes(type, type.sizes);
}

// The arguments of the form of a call that returns what the call writes into
// `out`. A new tensor is of the type that `out` has.
Arguments without_out(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    const Arguments& arguments) {
  const at::Tensor& out = arguments[info.mutated.front()].toTensor();
  Arguments plain;
  for (const c10::Argument& argument : info.functional.schema().arguments()) {
    if (const auto place = op.schema().argumentIndexWithName(argument.name())) {
      plain.push_back(arguments[static_cast<size_t>(*place)]);
    } else if (argument.name() == "dtype") {
      plain.emplace_back(static_cast<int64_t>(out.scalar_type()));
    } else if (argument.name() == "device") {
      plain.emplace_back(at::Device(at::kCPU));
    } else {
      plain.emplace_back();
    }
  }
  return plain;
}

bool has_bool_index(c10::ArrayRef<c10::IValue> arguments) {
  bool found = false;
  if (arguments.size() > 1 && arguments[1].isList()) {
    for_each_tensor(arguments[1], [&](const at::Tensor& tensor) {
      found |= tensor.defined() && (tensor.scalar_type() == at::kBool ||
                                    tensor.scalar_type() == at::kByte);
    });
  }
  return found;
}

}  // namespace

void Recorder::call(
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const OpInfo& info = info_of(op);
  if (info.kind == CallKind::Composite ||
      (info.kind == CallKind::DataDependent &&
       !has_known_types(info, make_node(info, arguments_of(op, *stack))))) {
    if (auto result = call_in_other_words(op, *stack)) {
      replace_arguments(op, stack, {*std::move(result)});
      return;
    }
  }
  if (info.kind == CallKind::Composite) {
    op.callBoxedForDispatchKey(
        c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return;
  }
  if (call_with_complex_tensor(op, stack)) {
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(kRecordingKey);
  if (current_phase() == Phase::Recompute && !forward_indexed_) {
    index_forward();
  }
  if (call_with_script_numbers(info, op, stack)) {
    return;
  }
  // Only with values does a call change the state of a generator.
  std::optional<ScriptGenerators::DuringCall> during;
  if (mode_ == RecordMode::Real || info.random) {
    during.emplace(generators_);
  }
  switch (info.kind) {
    case CallKind::Composite:
      return;
    case CallKind::Query:
      op.redispatchBoxed(below(keys), stack);
      return;
    case CallKind::View:
      call_view(info, op, keys, stack);
      return;
    case CallKind::Mutation:
      call_mutation(info, op, keys, stack);
      return;
    case CallKind::Out:
      call_out(info, op, keys, stack);
      return;
    case CallKind::ValueRead:
      call_value_read(info, op, keys, stack);
      return;
    case CallKind::DataDependent:
      if (has_known_types(info, make_node(info, arguments_of(op, *stack)))) {
        call_compute(info, op, keys, stack);
        return;
      }
      if (call_by_elements(op, stack)) {
        return;
      }
      refuse(
          false,
          cat("[capture] ",
              info.name,
              in_module(),
              ": the shape of its result depends on data, and a step that is "
              "planned ahead needs shapes that do not. Use a mask "
              "(torch.where, multiplication by 0/1) or a fixed size (topk, "
              "capacity) instead"));
    case CallKind::Compute:
      if (info.name == "aten.index.Tensor" &&
          has_bool_index(arguments_of(op, *stack))) {
        if (call_by_elements(op, stack)) {
          return;
        }
        refuse(
            false,
            cat("[capture] indexing with a boolean mask",
                in_module(),
                ": the shape of x[mask] depends on data. Use "
                "torch.where(mask, x, 0) and divide by mask.sum() where a "
                "mean is wanted"));
      }
      check_sparse(info, arguments_of(op, *stack));
      call_compute(info, op, keys, stack);
      return;
  }
}

std::string Recorder::in_module() const {
  return modules_.empty() || modules_.back().empty()
             ? ""
             : " in module " + modules_.back();
}

Arg Recorder::arg_of(
    const at::Tensor& tensor, c10::ArrayRef<c10::IValue> arguments) {
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !is_hollow(tensor)) {
    // A Python number in a place for tensors.
    const RecordingPause pause;
    const at::Scalar number = at::_local_scalar_dense(tensor);
    if (number.isBoolean()) {
      return {number.toBool()};
    }
    if (number.isIntegral(/*includeBool=*/false)) {
      return {static_cast<int64_t>(number.toLong())};
    }
    if (!number.isComplex()) {
      return {number.toDouble()};
    }
    return {value_of(complex_number(number, tensors_in(arguments)))};
  }
  return {value_of(tensor)};
}

Node Recorder::make_node(
    const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  Node node;
  node.op = info.name;
  write_arguments(
      info,
      arguments.slice(
          0,
          std::min(
              arguments.size(), info.functional.schema().arguments().size())),
      [&](const at::Tensor& tensor) { return arg_of(tensor, arguments); },
      node);
  return node;
}

void Recorder::call_view(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  Arguments arguments = arguments_of(op, *stack);
  // Views are of memory; marks on how it is to be read go along. t_() and the
  // like change the tensor itself: this is as it was.
  const at::Tensor base = memory_of(arguments.front().toTensor());
  arguments.front() = base;
  const size_t before = stack->size() - arguments.size();
  std::optional<Node> node;
  if (info.is_worked_out) {
    value_of(base);
  } else {
    node = make_node(info, arguments);
  }
  // A kernel of a view only computes sizes and strides: it runs on hollow
  // tensors too.
  op.redispatchBoxed(below(keys), stack);
  std::vector<at::Tensor> views =
      tensors_in(c10::ArrayRef<c10::IValue>(*stack).slice(before));
  if (!node || views.empty()) {
    return;
  }
  for (at::Tensor& view : views) {
    view = memory_of(view);
  }
  const bool shares = views.front().storage().unsafeGetStorageImpl() ==
                      base.storage().unsafeGetStorageImpl();
  if (shares && views.size() == 1 && now_.table.is_current(views.front())) {
    // detach, alias, the transpose of a transpose: a value that is there.
    return;
  }
  const std::vector<ValueId> values = append(*node, info, types_in(views));
  if (shares) {
    now_.table.add_views(base, views, *node, values);
  } else {
    for (size_t i = 0; i < views.size(); ++i) {
      now_.table.add(views[i], values[i]);
      observe_storage(views[i], weak_from_this());
    }
  }
  compute_known(info, arguments, values);
}

void Recorder::call_mutation(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const Arguments arguments = arguments_of(op, *stack);
  std::vector<at::Tensor> mutated;
  for (const size_t i : info.mutated) {
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      if (tensor.defined()) {
        check_written(info, tensor);
        mutated.push_back(tensor);
      }
    });
  }
  check_overlap(info, arguments);
  const c10::IValue& after = arguments[info.mutated.back() + 1];
  const bool idle_batch_norm =
      !info.returns_mutated &&
      (mutated.empty() || (after.isBool() && !after.toBool()));
  if (idle_batch_norm) {
    // Evaluation, or no running statistics: nothing is written.
    OpInfo plain = info;
    plain.functional = op;
    plain.name = "aten." + op.operator_name().name.substr(6);
    plain.def = find_op(plain.name);
    plain.forms.assign(op.schema().arguments().size(), ArgForm::Plain);
    call_compute(plain, op, keys, stack);
    return;
  }
  Node node = make_node(info, arguments);
  std::vector<TensorType> types;
  std::vector<c10::IValue> results;
  if (!info.returns_mutated) {
    results = infer(info, node, arguments);
    results.resize(op.schema().returns().size());
    types = types_in(tensors_in(results));
  }
  bool same_dtype = true;
  for (const at::Tensor& tensor : tensors_in(arguments)) {
    same_dtype &= !tensor.defined() || mutated.empty() ||
                  tensor.scalar_type() == mutated.front().scalar_type() ||
                  tensor.unsafeGetTensorImpl()->is_wrapped_number();
  }
  std::optional<TensorType> wide;
  if (info.returns_mutated && mutated.size() == 1 && !same_dtype &&
      info.stem != "copy") {
    const auto inferred = tensors_in(infer(info, node, arguments));
    if (inferred.size() == 1 &&
        inferred.front().scalar_type() != mutated.front().scalar_type()) {
      wide = type_of(inferred.front());
    }
  }
  if (info.returns_mutated && mutated.size() == 1 && same_dtype) {
    // x.gt_(0) is of the type of x, and x.gt(0) is not.
    const std::vector<TensorType> known = types_by_entry(info, node);
    if (known.size() == 1 &&
        known.front().dtype != dtype_of(mutated.front().scalar_type())) {
      wide = known.front();
    }
  }
  for (const at::Tensor& tensor : mutated) {
    types.push_back(wide ? *wide : written_type(tensor));
  }
  if (info.returns_mutated && mutated.size() == 1 && !wide) {
    node.overwrites = value_of(mutated.front());
  }
  std::vector<ValueId> values = append(node, info, types);
  if (wide) {
    // In place, the result is rounded to the tensor's own type.
    Node cast;
    cast.op = "aten._to_copy";
    cast.args = {{values.front()}};
    cast.options = {{"dtype", {dtype_of(mutated.front().scalar_type())}}};
    cast.overwrites = value_of(mutated.front());
    values = emit(cast, "to_copy", {written_type(mutated.front())});
  }
  if (mode_ == RecordMode::Hollow) {
    compute_known(info, arguments, values);
  }
  const size_t own = types.size() - mutated.size();
  for (size_t i = 0; i < mutated.size(); ++i) {
    now_.table.write(mutated[i], values[own + i]);
    note_write(mutated[i]);
  }
  if (mode_ == RecordMode::Real) {
    const size_t before = stack->size() - arguments.size();
    op.redispatchBoxed(below(keys), stack);
    results.assign(
        stack->begin() + static_cast<ptrdiff_t>(before), stack->end());
  } else if (info.returns_mutated) {
    results.clear();
    for (const c10::Argument& result : op.schema().returns()) {
      (void)result;
      results.push_back(arguments[info.mutated[results.size()]]);
    }
    replace_arguments(op, stack, results);
  } else {
    replace_arguments(op, stack, results);
  }
  if (!info.returns_mutated) {
    const std::vector<at::Tensor> made = tensors_in(results);
    for (size_t i = 0; i < made.size(); ++i) {
      if (made[i].defined()) {
        now_.table.add(made[i], values[i]);
        observe_storage(made[i], weak_from_this());
      }
    }
  }
}

void Recorder::note_write(const at::Tensor& tensor) {
  const auto known = written_at_.find(tensor.storage().unsafeGetStorageImpl());
  if (known != written_at_.end() && !known->second) {
    known->second = place();
  }
}

void Recorder::call_out(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const Arguments arguments = arguments_of(op, *stack);
  check_overlap(info, arguments);
  const Arguments plain = without_out(info, op, arguments);
  Node node = make_node(info, plain);
  const std::vector<TensorType> types =
      types_in(tensors_in(infer(info, node, plain)));
  const std::vector<ValueId> values = append(std::move(node), info, types);
  compute_known(info, plain, values);
  std::vector<c10::IValue> results;
  for (size_t i = 0; i < info.mutated.size(); ++i) {
    const at::Tensor& out = arguments[info.mutated[i]].toTensor();
    check_written(info, out);
    if (out.sizes() != c10::IntArrayRef(types[i].sizes)) {
      refuse(
          false,
          cat("[capture] ",
              info.name,
              in_module(),
              ": `out` is ",
              print(type_of(out)),
              " and the result ",
              print(types[i]),
              ": give it the shape of the result"));
    }
    ValueId value = values[i];
    const TensorType written = written_type(out);
    if (types[i] != written) {
      Node copy;
      copy.op = "aten.copy";
      copy.args = {{value_of(out)}, {value}};
      copy.overwrites = value_of(out);
      value = emit(std::move(copy), "copy", {written}).front();
    }
    now_.table.write(out, value);
    note_write(out);
    results.push_back(out);
  }
  if (mode_ == RecordMode::Real) {
    op.redispatchBoxed(below(keys), stack);
  } else {
    replace_arguments(op, stack, std::move(results));
  }
}

void Recorder::call_compute(
    const OpInfo& info,
    const c10::OperatorHandle& op,
    c10::DispatchKeySet keys,
    torch::jit::Stack* stack) {
  const Arguments arguments = arguments_of(op, *stack);
  Node node = make_node(info, arguments);
  if (mode_ == RecordMode::Hollow) {
    replace_arguments(op, stack, infer(info, node, arguments));
  } else {
    op.redispatchBoxed(below(keys), stack);
  }
  const size_t returns = op.schema().returns().size();
  const std::vector<at::Tensor> made = tensors_in(
      c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - returns));
  for (const at::Tensor& tensor : made) {
    check_layout(tensor);
  }
  const std::vector<TensorType> types = types_in(made);
  const bool has_factory = info.def != nullptr && !info.def->factory.empty();
  if (has_factory) {
    node.op = info.def->factory;
    node.args.erase(node.args.begin());
  }
  if ((has_factory || !info.has_tensor_argument) &&
      find_option(node, "dtype") == nullptr &&
      op.schema().argumentIndexWithName("dtype") && !types.empty()) {
    // The default dtype is a setting of the process, or the first operand's:
    // write down what it was.
    node.options.push_back({"dtype", {types.front().dtype}});
  }
  const std::vector<ValueId> values = append(std::move(node), info, types);
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].defined()) {
      continue;
    }
    now_.table.add(made[i], values[i]);
    if (mode_ == RecordMode::Real) {
      observe_storage(made[i], weak_from_this());
    }
  }
  compute_known(info, arguments, values);
}

void Recorder::fill(
    const at::Tensor& tensor, Node node, const std::string& stem) {
  const ValueId before = value_of(tensor);
  node.args.insert(node.args.begin(), {before});
  node.overwrites = before;
  if (const OpDef* def = find_op(node.op);
      def != nullptr && def->kind == OpKind::Random) {
    node.options.push_back({std::string(kRngOption), {next_rng_++}});
  }
  now_.table.write(tensor, emit(node, stem, {written_type(tensor)}).front());
}

}  // namespace weft
