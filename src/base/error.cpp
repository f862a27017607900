// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace weft {

void fail_internal(const char* file, int line, const std::string& message) {
  throw InternalError(cat(file, ":", line, ": ", message));
}

}  // namespace weft
