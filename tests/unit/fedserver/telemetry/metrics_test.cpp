#include "fedserver/telemetry/metrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace fedqueue {
namespace {

TEST(Metrics, RendersWhatPrometheusReads) {
  Metrics metrics;
  metrics.describe("updates_total", Metrics::Kind::counter, "Updates.");
  metrics.describe("round", Metrics::Kind::gauge, "The round.");
  metrics.add("updates_total", 1, {{"client", "b"}, {"outcome", "late"}});
  metrics.add("updates_total", 2, {{"client", "a"}, {"outcome", "admitted"}});
  metrics.set("round", 7);
  EXPECT_EQ(metrics.text(),
            "# HELP round The round.\n# TYPE round gauge\nround 7\n"
            "# HELP updates_total Updates.\n# TYPE updates_total counter\n"
            "updates_total{client=\"a\",outcome=\"admitted\"} 2\n"
            "updates_total{client=\"b\",outcome=\"late\"} 1\n");
}

TEST(Metrics, EscapesLabelValues) {
  Metrics metrics;
  metrics.set("x", 1, {{"a", "quote\" back\\ line\n"}});
  EXPECT_EQ(metrics.text(), "# TYPE x counter\nx{a=\"quote\\\" back\\\\ line\\n\"} 1\n");
}

TEST(Metrics, WritesEveryNumber) {
  Metrics metrics;
  metrics.set("a", 0.1);
  metrics.set("b", 12345678901.0);
  metrics.set("c", std::numeric_limits<double>::infinity());
  EXPECT_EQ(metrics.text(),
            "# TYPE a counter\na 0.1\n# TYPE b counter\nb 12345678901\n"
            "# TYPE c counter\nc +Inf\n");
}

TEST(Metrics, MeasuresBeforeItRenders) {
  Metrics metrics;
  metrics.before_rendering([](Metrics& all) { all.set("now", 3); });
  EXPECT_NE(metrics.text().find("now 3"), std::string::npos);
}

TEST(Metrics, HasARoomThatMadeUpLabelsCannotFill) {
  Metrics metrics;
  for (std::size_t i = 0; i < Metrics::series_max + 10; ++i) {
    metrics.add("x", 1, {{"label", std::to_string(i)}});
  }
  EXPECT_EQ(metrics.value("x", {{"label", std::to_string(Metrics::series_max - 1)}}), 1);
  EXPECT_EQ(metrics.value("x", {{"label", std::to_string(Metrics::series_max)}}), 0);
  metrics.clear("x");
  metrics.add("x", 1, {{"label", "new"}});
  EXPECT_EQ(metrics.value("x", {{"label", "new"}}), 1);
}

TEST(Metrics, KnowsItsOwnMemory) { EXPECT_GT(resident_memory_bytes(), 100'000); }

}  // namespace
}  // namespace fedqueue
