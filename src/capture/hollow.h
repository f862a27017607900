// SPDX-License-Identifier: Apache-2.0
// Hollow tensors: CPU tensors with sizes, strides and a storage, but no memory.
//
// The user's step runs on them. They say "cpu" when asked for their device, so
// every composite operator takes the path that it takes in a real run (fused
// attention, oneDNN LSTM cells), which tensors on the meta device do not. No
// kernel ever runs on one: the recorder answers every call that would.
// Reading the data pointer raises an error.
#pragma once

#include "graph/tensor_type.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace weft {

// Told when a storage that it follows is given back.
class StorageObserver {
 public:
  virtual ~StorageObserver() = default;
  virtual void storage_released(const c10::StorageImpl* storage) = 0;
};

// A fresh hollow tensor whose storage reports its end to `observer`, if that
// is still there.
at::Tensor make_hollow(
    const TensorType& type, const std::weak_ptr<StorageObserver>& observer);

// One that stands for what a step has left behind: who reads it gets `why`.
at::Tensor make_placeholder(const TensorType& type, const std::string& why);

// Makes the storage of a real tensor report its end too.
void observe_storage(
    const at::Tensor& tensor, const std::weak_ptr<StorageObserver>& observer);

bool is_hollow(const at::Tensor& tensor);

// A tensor on the meta device with the same type: what PyTorch's own shape
// kernels are asked with. A wrapped number is given back as it is.
at::Tensor to_meta(const at::Tensor& tensor);

}  // namespace weft
