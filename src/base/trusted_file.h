// SPDX-License-Identifier: Apache-2.0
// Files that one run keeps for the next, in places where other users may come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// Why another user may have written what the file or folder holds; empty: only
// this user, root, or the user `also`, could. A link is not followed: another
// may have made it. Empty too where nothing is there.
std::string distrust(
    const std::string& path, std::optional<int64_t> also = std::nullopt);

// The user whose file or folder it is, links followed; nullopt where nothing
// is there.
std::optional<int64_t> owner_of(const std::string& path);

}  // namespace weft
