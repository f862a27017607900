// SPDX-License-Identifier: Apache-2.0
// Values of Python as state_watch.h looks at them.
#pragma once

#include "capture/hollow.h"
#include "state_watch.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <vector>

namespace weft {

pybind11::object borrowed(PyObject* object);
std::string text_of(PyObject* object);

// Of the same type and with the same value.
bool is_equal(PyObject* one, PyObject* other);
// The elements of an array; none when they are too many.
pybind11::object bytes_of(PyObject* array);
// Where a source of random numbers is: whether it still is there, and back to
// there.
pybind11::object random_state(PyObject* source);
bool is_in_state(PyObject* source, PyObject* state);
void set_random_state(PyObject* source, PyObject* state);
// The number of elements in a list, tuple, dict, set or deque. For the first
// four, a subclass cannot change the answer by its own __len__.
Py_ssize_t element_count(PyObject* container);
// The element i of a list, tuple or deque.
pybind11::object element(PyObject* sequence, size_t i);

// The attributes that hold what a method, a function or a functools.partial
// takes along when it is called; none where there is nothing.
std::vector<const char*> held_by_callable(PyObject* callable);

// The dicts with the hooks that Python has registered on a tensor, nullptr
// where there was never one: those that see the gradient before it is
// accumulated, and those that run afterwards.
std::array<PyObject*, 2> hooks_of(PyObject* tensor);
// How many hooks there are on the node that accumulates the gradient of a
// leaf.
size_t accumulator_hooks(const at::Tensor& tensor);

struct Remembered::TensorMark {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes;
  bool requires_grad = false;
  bool is_hollow = false;
  const void* data = nullptr;
  int64_t version = 0;
  size_t accumulator_hooks = 0;

  explicit TensorMark(const at::Tensor& tensor)
      : dtype(tensor.scalar_type()),
        sizes(tensor.sizes().vec()),
        requires_grad(tensor.requires_grad()),
        is_hollow(weft::is_hollow(tensor)),
        data(data_of(tensor)),
        version(version_of(tensor)),
        accumulator_hooks(weft::accumulator_hooks(tensor)) {}

  bool has_type(const at::Tensor& tensor) const {
    return tensor.scalar_type() == dtype &&
           tensor.sizes() == c10::IntArrayRef(sizes);
  }
  static const void* data_of(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage()
                                      .unsafeGetStorageImpl()
                                      ->_mutable_data_ptr_no_checks()
                                      .get()
                                : nullptr;
  }
  static int64_t version_of(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : tensor._version();
  }
};

}  // namespace weft
