// SPDX-License-Identifier: Apache-2.0
#include "search/words_layouts.h"

#include "base/error.h"
#include "lower/lower.h"
#include "search/layout_plan.h"
#include "search/search.h"
#include "search/test_step.h"
#include "simulate/simulate.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr int64_t kMuch = int64_t{1} << 40;

TEST(WordsLayouts, BeatWordsThatSplitTheWrongThing) {
  // Many rows and small weights: `tensor` splits these, and moves the rows.
  const Graph graph = chain_step(4, 2048, 64, 256);
  const Cluster cluster = test_cluster(4, 1e11, 1e9);
  const WordsPlan found = plan_with_layouts(
      graph, parse_parallel("tensor=4", "words"), cluster, kMuch);
  EXPECT_TRUE(found.is_searched);
  EXPECT_LT(found.step_seconds, 0.7 * found.words_seconds);
  verify(found.plan, graph);
  EXPECT_DOUBLE_EQ(
      summarize(lower(graph, found.plan, cluster), cluster).step_seconds,
      found.step_seconds);
}

TEST(WordsLayouts, AreNeverWorseThanWords) {
  for (const char* text :
       {"tensor=4",
        "data=2,tensor=2",
        "tensor=2,pipeline=2,micro-batches=2",
        "data=2,tensor=2,zero=3,micro-batches=2"}) {
    for (const double rate : {1e8, 1e9, 1e11}) {
      const Graph graph = chain_step(4, 64, 128, 512);
      const Cluster cluster = test_cluster(4, 1e11, rate);
      const Parallel words = parse_parallel(text, "words");
      const WordsPlan found = plan_with_layouts(graph, words, cluster, kMuch);
      const double by_words =
          summarize(lower(graph, expand(words, graph), cluster), cluster)
              .step_seconds;
      EXPECT_DOUBLE_EQ(found.words_seconds, by_words) << text << " " << rate;
      EXPECT_LE(found.step_seconds, by_words) << text << " " << rate;
    }
  }
}

TEST(WordsLayouts, AMenuTradesTimeForBytes) {
  const Graph graph = chain_step(8, 2048, 64, 256);
  const Cluster cluster = test_cluster(4, 1e11, 1e9);
  const StepUnits units = step_units(step_of(graph));
  const std::vector<SearchedLayouts> menu =
      layout_menu(graph, shrink(graph, units), cluster, {.tensor = 4}, 3);
  ASSERT_GE(menu.size(), 2);
  for (size_t i = 1; i < menu.size(); ++i) {
    EXPECT_GT(menu[i].seconds, menu[i - 1].seconds);
    EXPECT_LT(menu[i].bytes, menu[i - 1].bytes);
  }
}

TEST(WordsLayouts, AreOfTensorAlone) {
  const Graph graph = chain_step(2, 64, 64, 256);
  const Cluster cluster = test_cluster(4, 1e11, 1e9);
  for (const char* text : {"data=4", "tensor=2x2", "tensor=2,context=2"}) {
    EXPECT_THROW(
        plan_with_layouts(graph, parse_parallel(text, "words"), cluster, kMuch),
        UserError)
        << text;
  }
}

SearchResult searched(const std::vector<std::string>& fixed, bool searches) {
  const Graph graph = chain_step(4, 2048, 64, 256);
  const Cluster cluster = test_cluster(4, 1e11, 1e9);
  SearchOptions options;
  options.searches_layouts = searches;
  for (const std::string& word : fixed) {
    fix_word(options.limits, word);
  }
  return search(graph, cluster, options);
}

TEST(WordsLayouts, AreTakenByTheSearchWhereTheyAreFaster) {
  const SearchResult by_words = searched({"tensor=4"}, false);
  const SearchResult result = searched({"tensor=4"}, true);
  EXPECT_FALSE(by_words.tried.front().candidate.has_searched_layouts);
  EXPECT_TRUE(result.tried.front().candidate.has_searched_layouts);
  EXPECT_LT(
      result.tried.front().seconds(), 0.7 * by_words.tried.front().seconds());
  EXPECT_NE(
      print(result.tried.front().candidate).find("layouts=searched"),
      std::string::npos);
  ASSERT_TRUE(result.plan);

  const SearchResult kept = searched({"tensor=4", "layouts=words"}, true);
  EXPECT_FALSE(kept.tried.front().candidate.has_searched_layouts);
  const SearchResult asked = searched({"tensor=4", "layouts=searched"}, false);
  EXPECT_EQ(asked.tried.front().candidate, result.tried.front().candidate);
  EXPECT_THROW(searched({"tensor=1", "layouts=searched"}, false), UserError);
}

}  // namespace
}  // namespace weft
