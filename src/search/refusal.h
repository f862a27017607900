// SPDX-License-Identifier: Apache-2.0
// Why a candidate cannot be, from what is thrown while it is tried.
#pragma once

#include <functional>
#include <string>

namespace weft {

// Runs `attempt`. Empty when it went through; the message of a UserError; and
// for a broken invariant of ours its message, marked as a fault: a mistake in
// one candidate's lowering says nothing about the others, and ends no search.
// Only std::bad_alloc passes through.
std::string refusal_of(const std::function<void()>& attempt);

// Whether the reason is a mistake of ours.
bool is_fault(const std::string& reason);

}  // namespace weft
