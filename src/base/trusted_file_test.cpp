// SPDX-License-Identifier: Apache-2.0
#include "base/trusted_file.h"

#include "base/text.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace weft {
namespace {

namespace fs = std::filesystem;

class TrustedFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (fs::temp_directory_path() / "weft.trusted.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "kept";
    write_file(path_.string(), "kept");
    ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  fs::path path_;
};

TEST_F(TrustedFile, OwnFilesAre) {
  EXPECT_EQ(distrust(path_.string()), "");
  EXPECT_EQ(distrust(folder_.string()), "");
  EXPECT_EQ(distrust((folder_ / "nothing").string()), "");
}

TEST_F(TrustedFile, ThoseThatOthersMayWriteAreNot) {
  for (const mode_t mode : {0664, 0646}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(
        distrust(path_.string()),
        path_.string() + " may be written by others than its owner");
  }
}

TEST_F(TrustedFile, LinksAreNot) {
  const fs::path link = folder_ / "link";
  fs::create_symlink(path_, link);
  EXPECT_NE(distrust(link.string()), "");
}

TEST_F(TrustedFile, AnotherUsersAreOnlyWhereThatUserIsBelieved) {
  constexpr int64_t kOther = 12'345;
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  ASSERT_EQ(::chown(path_.c_str(), kOther, kOther), 0);
  EXPECT_EQ(distrust(path_.string()), path_.string() + " is user 12345's");
  EXPECT_EQ(distrust(path_.string(), kOther), "");
  EXPECT_EQ(owner_of(path_.string()), kOther);
}

}  // namespace
}  // namespace weft
