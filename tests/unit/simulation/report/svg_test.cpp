#include "simulation/report/svg.h"

#include <gmock/gmock.h>

namespace fedqueue::simulation {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(RoundSteps, AreOnesTwosAndFives) {
  EXPECT_THAT(round_steps(0, 1, 5), ElementsAre(0, testing::DoubleEq(0.2), testing::DoubleEq(0.4),
                                                testing::DoubleNear(0.6, 1e-12),
                                                testing::DoubleEq(0.8), testing::DoubleEq(1)));
  EXPECT_THAT(round_steps(0, 300, 6), ElementsAre(0, 50, 100, 150, 200, 250, 300));
  EXPECT_TRUE(round_steps(1, 1, 5).empty());
}

TEST(Escaped, NothingOfATextIsMarkup) {
  EXPECT_EQ(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
}

TEST(LineChart, DrawsLinesBandsAndALegend) {
  ChartFrame frame;
  frame.x_max = 10;
  frame.level = 0.5;
  ChartLine line{"<mine>", 3, {0, 5, 10}, {0, 0.5, 1}, {0, 0.4, 0.9}, {0.1, 0.6, 1}};
  const std::string svg = line_chart(frame, {line});
  EXPECT_THAT(svg, HasSubstr("<polyline class=\"line c3\""));
  EXPECT_THAT(svg, HasSubstr("<polygon class=\"band c3\""));
  EXPECT_THAT(svg, HasSubstr("&lt;mine&gt;"));
  EXPECT_THAT(svg, HasSubstr("class=\"level\""));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  // The middle of the data is the middle of the frame: 56 + (720 − 68)/2 and 10 + (320 − 50)/2.
  EXPECT_THAT(svg, HasSubstr("382.0,145.0"));
}

TEST(BarRows, DrawsEveryBarThatCanBeSeen) {
  const std::string svg =
      bar_rows({{"one", {{0, 5, 2, "training"}, {5, 5, 1, "nothing"}}}, {"two", {}}}, 10, "time");
  EXPECT_THAT(svg, HasSubstr("<title>training</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("nothing")));
  EXPECT_THAT(svg, HasSubstr(">two</text>"));
  const std::string untitled = bar_rows({{"one", {{0, 2, 3, ""}, {4, 5, 3, ""}}}}, 10, "time", 720);
  EXPECT_THAT(untitled, Not(HasSubstr("<rect")));
  EXPECT_EQ(untitled.find("class=\"bars c3\""), untitled.rfind("class=\"bars"))
      << "one path for all of a colour";
}

}  // namespace
}  // namespace fedqueue::simulation
