// SPDX-License-Identifier: Apache-2.0
#include "search/refusal.h"

#include "base/error.h"

#include <exception>
#include <new>
#include <string_view>

namespace weft {
namespace {

constexpr std::string_view kFault = "a mistake of Weft, please report it: ";

}  // namespace

std::string refusal_of(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const UserError& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return cat(kFault, error.what());
  }
  return "";
}

bool is_fault(const std::string& reason) { return reason.starts_with(kFault); }

}  // namespace weft
