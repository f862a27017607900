// SPDX-License-Identifier: Apache-2.0
#include "execute/arena.h"

#include "aten/types.h"
#include "base/error.h"
#include "program/live_bytes.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace weft {
namespace {

int64_t machine_bytes() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
}

std::byte* map_memory(int64_t bytes) {
  void* memory = ::mmap(
      nullptr,
      static_cast<size_t>(bytes),
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
      -1,
      0);
  WEFT_CHECK_USER(
      memory != MAP_FAILED,
      "cannot reserve ",
      bytes,
      " bytes of memory: ",
      std::strerror(errno));
  // Fewer page faults, and fewer misses when it is read; only a wish.
  ::madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

at::Tensor tensor_over(std::byte* memory, const TensorType& type) {
  return at::from_blob(
      memory,
      type.sizes,
      strides_of(type),
      at::TensorOptions().dtype(scalar_type_of(type.dtype)));
}

Arena::Arena(int64_t budget_bytes)
    : budget_bytes_(budget_bytes),
      limit_bytes_(budget_bytes > 0 ? budget_bytes : machine_bytes()) {
  resident_ = map_memory(limit_bytes_);
  step_ = map_memory(limit_bytes_);
}

Arena::~Arena() {
  tensors_.clear();
  ::munmap(resident_, static_cast<size_t>(limit_bytes_));
  ::munmap(step_, static_cast<size_t>(limit_bytes_));
}

void Arena::check_fits(
    int64_t resident, int64_t step, const std::string& what) {
  WEFT_CHECK_USER(
      resident + step <= limit_bytes_,
      what,
      " does not fit: ",
      resident,
      " bytes of parameters, buffers and states and ",
      step,
      " of the step make ",
      resident + step,
      ", and the rank has ",
      limit_bytes_,
      budget_bytes_ > 0 ? " by its budget" : " of memory",
      "; take a smaller batch, more ranks or a larger budget");
}

at::Tensor Arena::resident(const std::string& name, const TensorType& type) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) {
    WEFT_CHECK_USER(
        type_of(found->second) == type,
        name,
        " is ",
        print(type_of(found->second)),
        " in memory, and ",
        print(type),
        " in the program");
    return found->second;
  }
  const int64_t bytes = aligned(storage_bytes(type));
  check_fits(resident_bytes_ + bytes, step_bytes_, name);
  at::Tensor tensor = tensor_over(resident_ + resident_bytes_, type);
  resident_bytes_ += bytes;
  tensors_.emplace(name, tensor);
  return tensor;
}

bool Arena::has_resident(const std::string& name) const {
  return tensors_.contains(name);
}

TensorType Arena::type_of_resident(const std::string& name) const {
  return type_of(tensors_.at(name));
}

std::byte* Arena::step_region(int64_t bytes) {
  check_fits(resident_bytes_, std::max(step_bytes_, bytes), "the step");
  step_bytes_ = std::max(step_bytes_, bytes);
  return step_;
}

}  // namespace weft
