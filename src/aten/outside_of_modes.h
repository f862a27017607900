// SPDX-License-Identifier: Apache-2.0
// A script may run a step under torch.autocast or a mode of its own. That is
// part of what was captured: it must not change what kernels compute.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace weft {

// Calls of this thread pass by these modes while it lives.
struct OutsideOfModes {
  c10::impl::ExcludeDispatchKeyGuard guard{
      c10::autocast_dispatch_keyset |
      c10::DispatchKeySet(
          {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})};
};

}  // namespace weft
