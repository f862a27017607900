// SPDX-License-Identifier: Apache-2.0
#include "capture/hollow.h"

#include "aten/types.h"
#include "base/error.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

namespace weft {
namespace {

// Rides on a storage's data pointer as its context.
struct Tag {
  std::weak_ptr<StorageObserver> observer;
  const c10::StorageImpl* storage = nullptr;
  // The memory of an observed real storage.
  at::DataPtr memory;
};

void drop_tag(void* context) {
  std::unique_ptr<Tag> tag(static_cast<Tag*>(context));
  if (auto observer = tag->observer.lock()) {
    observer->storage_released(tag->storage);
  }
}

at::Tensor make_empty(
    const TensorType& type,
    c10::DispatchKey key,
    c10::intrusive_ptr<c10::StorageImpl> storage) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)),
      c10::DispatchKeySet(key),
      c10::scalarTypeToTypeMeta(scalar_type_of(type.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(
      type.sizes,
      type.strides.empty() ? row_major_strides(type.sizes) : type.strides);
  return tensor;
}

}  // namespace

at::Tensor make_hollow(
    const TensorType& type, const std::weak_ptr<StorageObserver>& observer) {
  auto tag = std::make_unique<Tag>();
  tag->observer = observer;
  Tag* raw = tag.get();
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      storage_bytes(type),
      at::DataPtr(nullptr, tag.release(), &drop_tag, at::Device(at::kCPU)),
      /*allocator=*/nullptr,
      /*resizable=*/false);
  raw->storage = storage.get();
  // A short message fits its string's own buffer: no allocation a tensor.
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "weft: no data");
  return make_empty(type, c10::DispatchKey::CPU, std::move(storage));
}

at::Tensor make_placeholder(const TensorType& type, const std::string& why) {
  at::Tensor tensor = make_hollow(type, {});
  tensor.storage()
      .unsafeGetStorageImpl()
      ->release_data_and_set_meta_custom_data_ptr_error_msg_(why);
  return tensor;
}

void observe_storage(
    const at::Tensor& tensor, const std::weak_ptr<StorageObserver>& observer) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->_mutable_data_ptr_no_checks().get_deleter() == &drop_tag) {
    return;
  }
  auto tag = std::make_unique<Tag>();
  tag->observer = observer;
  tag->storage = storage;
  void* data = storage->mutable_data();
  tag->memory = storage->set_data_ptr(at::DataPtr());
  storage->set_data_ptr_noswap(
      at::DataPtr(data, tag.release(), &drop_tag, at::Device(at::kCPU)));
}

bool is_hollow(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return false;
  }
  const at::DataPtr& data =
      tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return data.get() == nullptr && data.get_deleter() == &drop_tag;
}

at::Tensor to_meta(const at::Tensor& tensor) {
  // A number in a place for tensors stays one: shape kernels read its kind, and
  // those written in Python its value.
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return tensor;
  }
  const TensorType type = type_of(tensor);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      storage_bytes(type),
      at::DataPtr(nullptr, at::Device(at::kMeta)),
      /*allocator=*/nullptr,
      /*resizable=*/false);
  return make_empty(type, c10::DispatchKey::Meta, std::move(storage));
}

}  // namespace weft
