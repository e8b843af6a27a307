// Small charts as SVG text, for a page without scripts.
//
// Colours come from the page (classes c0 … c9), so that it can follow a dark scheme. Text is
// escaped here.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fedqueue::simulation {

[[nodiscard]] std::string escaped(const std::string& text);

struct ChartLine {
  std::string name;
  int colour = 0;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low;  // of the band around it; empty: none
  std::vector<double> high;
};

struct ChartFrame {
  std::string x_title;
  std::string y_title;
  double x_min = 0;
  double x_max = 1;
  double y_min = 0;
  double y_max = 1;
  bool x_logarithmic = false;   // x_min must be positive
  bool y_percent = false;       // labels as percentages
  std::optional<double> level;  // a dashed horizontal line
  int width = 720;
  int height = 320;
};

// Lines with bands, axes with round numbers, and a legend below.
[[nodiscard]] std::string line_chart(const ChartFrame& frame, const std::vector<ChartLine>& lines);

struct Bar {
  double begin = 0;
  double end = 0;
  int colour = 0;
  std::string title;  // shown on hover; those without one are drawn over the others
};

struct BarRow {
  std::string name;
  std::vector<Bar> bars;
};

// Rows of bars on a common axis from 0 to `x_max`: a Gantt chart, or stacked shares.
[[nodiscard]] std::string bar_rows(const std::vector<BarRow>& rows, double x_max,
                                   const std::string& x_title, int width = 720);

// Steps of 1, 2 or 5 times a power of ten that cover the range with about `count` labels.
[[nodiscard]] std::vector<double> round_steps(double low, double high, int count);

}  // namespace fedqueue::simulation
