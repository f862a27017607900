// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace weft {

// The exit code of a child that is this program's other half, or 128 + the
// signal that ended it. One that is stopped is named within twice the heartbeat
// (execute/heartbeat.h), and ended when it does not go on.
int wait_for_python(pid_t child);

}  // namespace weft
