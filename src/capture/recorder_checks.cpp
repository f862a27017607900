// SPDX-License-Identifier: Apache-2.0
// Tensors and writes that a Graph cannot hold, refused by name.
#include "aten/types.h"
#include "base/error.h"
#include "capture/arguments.h"
#include "capture/call_stack.h"
#include "capture/memory_overlap.h"
#include "capture/recorder.h"

#include <c10/core/GradMode.h>

#include <algorithm>

namespace weft {
namespace {

// Up to this many elements, every place is looked at.
constexpr int64_t kCountedElements = 1 << 20;

// Whether two indices lead to one place: no by the strides from the smallest to
// the largest, each beyond all that the ones before it reach.
bool may_overlap(const at::Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (tensor.size(dim) > 1) {
      dims.emplace_back(tensor.stride(dim), tensor.size(dim));
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) {
      return true;
    }
    reach += stride * (size - 1);
  }
  return false;
}

bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || !may_overlap(tensor)) {
    return false;
  }
  if (tensor.numel() > kCountedElements) {
    return true;
  }
  std::vector<int64_t> places = {0};
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    std::vector<int64_t> further;
    for (int64_t i = 0; i < tensor.size(dim); ++i) {
      for (const int64_t place : places) {
        further.push_back(place + i * tensor.stride(dim));
      }
    }
    places = std::move(further);
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

}  // namespace

void Recorder::check_layout(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.layout() != at::kStrided) {
    refuse(
        false,
        cat("[capture] a tensor of layout ",
            c10::str(tensor.layout()),
            in_module(),
            ": a step that is planned ahead has dense tensors only. Use "
            "to_dense(), or multiply by an index (index_add, scatter_add)"));
  }
}

void Recorder::check_kind(const at::Tensor& tensor) {
  check_layout(tensor);
  if (tensor.is_meta()) {
    refuse(
        false,
        cat("[capture] a tensor of ",
            print(type_of(tensor)),
            " is on the meta device and has no values. Build the model on the "
            "CPU, give it values (model.to_empty(device=\"cpu\") and its "
            "initialisation), or plan without values: weft.capture_function of "
            "the function that builds it allocates nothing"));
  }
  if (!tensor.is_cpu()) {
    refuse(
        false,
        cat("[capture] a tensor of ",
            print(type_of(tensor)),
            " is on ",
            tensor.device().str(),
            ": steps run on the CPU. Call .cpu() on the model and the batch"));
  }
  if (tensor.is_nested() || !tensor.has_storage() ||
      tensor.key_set().has(c10::DispatchKey::Python)) {
    refuse(
        false,
        cat("[capture] a tensor",
            in_module(),
            " is of a subclass that keeps its elements elsewhere (a nested or "
            "a distributed tensor): give the plain tensors instead"));
  }
}

void Recorder::check_written(const OpInfo& info, const at::Tensor& tensor) {
  check_kind(tensor);
  if (overlaps_itself(tensor)) {
    refuse(
        false,
        cat("[capture] ",
            info.name,
            in_module(),
            " writes into a tensor of which several elements are one place in "
            "memory (expand, overlapping windows): call clone() on it first"));
  }
}

// A kernel reads some of these elements before it has written them and some
// afterwards, as it happens to go through memory.
void Recorder::check_overlap(
    const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  for (const size_t i : info.mutated) {
    for_each_tensor(arguments[i], [&](const at::Tensor& written) {
      for (size_t j = 0; j < arguments.size(); ++j) {
        for_each_tensor(arguments[j], [&](const at::Tensor& read) {
          if (written.defined() && read.defined() && i != j &&
              !is_same_view(written, read) && shares_elements(written, read)) {
            refuse(
                false,
                cat("[capture] ",
                    info.name,
                    in_module(),
                    " writes into elements that it also reads as others (x[1:] "
                    "-= x[:-1]), and what comes out depends on the order in "
                    "which memory is gone through: call clone() on what is "
                    "read"));
          }
        });
      }
    });
  }
}

void Recorder::check_history(const at::Tensor& tensor) {
  if (tensor.requires_grad() && tensor.grad_fn() != nullptr) {
    refuse(
        false,
        cat("[capture] the step reads a tensor",
            in_module(),
            " that was computed outside of it (before it, or in another "
            "thread) and that gradients would flow through: compute it in "
            "forward, or call detach() on it"));
  }
}

void Recorder::check_sparse(
    const OpInfo& info, c10::ArrayRef<c10::IValue> arguments) {
  if (info.sparse_argument < 0 ||
      !arguments[static_cast<size_t>(info.sparse_argument)].toBool() ||
      !arguments.front().toTensor().requires_grad() ||
      !c10::GradMode::is_enabled()) {
    return;
  }
  refuse(
      false,
      cat("[capture] ",
          info.name,
          in_module(),
          ": its gradient is to be sparse, and a step that is planned ahead "
          "has dense tensors only. Build the module with sparse=False, which "
          "gives the same gradient as a dense tensor"));
}

}  // namespace weft
