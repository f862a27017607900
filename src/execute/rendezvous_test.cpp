// SPDX-License-Identifier: Apache-2.0
#include "execute/rendezvous.h"

#include "base/error.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <map>

namespace weft {
namespace {

// Sets variables, and takes them back.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : variables_) {
      ::unsetenv(name.c_str());
    }
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

const std::map<std::string, std::string> kTorchrun = {
    {"RANK", "1"},
    {"WORLD_SIZE", "2"},
    {"MASTER_ADDR", "host"},
    {"MASTER_PORT", "29500"},
    {"TORCHELASTIC_RUN_ID", "run"},
    {"TORCHELASTIC_RESTART_COUNT", "2"},
    {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

TEST(Rendezvous, NoneWithoutARank) {
  EXPECT_FALSE(rendezvous_from_environment());
}

TEST(Rendezvous, TorchrunsRestartsHaveKeysOfTheirOwn) {
  const Variables variables(kTorchrun);
  const Rendezvous rendezvous = rendezvous_from_environment().value();
  EXPECT_EQ(rendezvous.rank, 1);
  EXPECT_EQ(rendezvous.size, 2);
  EXPECT_EQ(rendezvous.host, "host");
  EXPECT_EQ(rendezvous.port, 29500);
  EXPECT_TRUE(rendezvous.has_agent);
  EXPECT_EQ(rendezvous.prefix, "weft/run.2");
  EXPECT_EQ(rendezvous.stall_seconds, 20);
}

TEST(Rendezvous, OurOwnStartKeepsTheStore) {
  const Variables variables(
      {{"RANK", "0"},
       {"WORLD_SIZE", "2"},
       {"MASTER_ADDR", "127.0.0.1"},
       {"MASTER_PORT", "1"},
       {"WEFT_START", "7.x"},
       {"WEFT_STALL_SECONDS", "5"},
       {"WEFT_TIMEOUT_SECONDS", "6"}});
  const Rendezvous rendezvous = rendezvous_from_environment().value();
  EXPECT_TRUE(rendezvous.has_agent);
  EXPECT_EQ(rendezvous.prefix, "weft/7.x");
  EXPECT_EQ(rendezvous.stall_seconds, 5);
  EXPECT_EQ(rendezvous.timeout_seconds, 6);
}

TEST(Rendezvous, MistakesAreNamed) {
  const Variables variables(kTorchrun);
  const auto message = []() -> std::string {
    try {
      rendezvous_from_environment();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  {
    const std::map<std::string, std::string> soon = {
        {"WEFT_STALL_SECONDS", "soon"}};
    const Variables wrong(soon);
    EXPECT_NE(message().find("WEFT_STALL_SECONDS"), std::string::npos);
  }
  ::setenv("RANK", "2", 1);
  EXPECT_EQ(message(), "RANK is 2, and WORLD_SIZE 2");
  ::unsetenv("MASTER_PORT");
  EXPECT_NE(message().find("MASTER_PORT is not"), std::string::npos);
}

}  // namespace
}  // namespace weft
