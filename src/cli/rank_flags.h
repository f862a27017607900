// SPDX-License-Identifier: Apache-2.0
// What the commands share that start ranks on this machine.
#pragma once

namespace CLI {
class App;
}

namespace weft {

// --oversubscribe: more ranks than the cores take are meant (rank_room.h).
void add_oversubscribe_flag(CLI::App& command, bool& oversubscribe);

}  // namespace weft
