// SPDX-License-Identifier: Apache-2.0
#include "execute/c10d_backends.h"

#include "base/error.h"
#include "execute/gloo.h"
#ifdef WEFT_NCCL
#include "execute/nccl.h"
#endif

#include <c10/core/DeviceType.h>

namespace weft {

C10dBackend make_backend(
    c10::DeviceType device,
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    const Rendezvous& rendezvous,
    Watch& watch) {
  if (device == c10::DeviceType::CPU) {
    return make_gloo_backend(store, ranks, rendezvous, watch);
  }
#ifdef WEFT_NCCL
  if (device == c10::DeviceType::CUDA) {
    return make_nccl_backend(store, ranks, rendezvous);
  }
#endif
  throw UserError(
      cat("ranks cannot exchange tensors of ",
          c10::DeviceTypeName(device),
          ": this build of weft has no communication for them (for CUDA, "
          "configure with -DWEFT_NCCL=ON and a CUDA build of torch)"));
}

}  // namespace weft
