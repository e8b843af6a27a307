#include "simulation/report/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace fedqueue::simulation {
namespace {

constexpr int kLeft = 56;
constexpr int kRight = 12;
constexpr int kTop = 10;
constexpr int kBottom = 40;
constexpr int kLegendRow = 18;
constexpr int kRowHeight = 22;
constexpr int kNameWidth = 130;

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string place(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

class Scale {
 public:
  explicit Scale(const ChartFrame& frame) : frame_(frame) {}

  [[nodiscard]] double x(double value) const {
    const double share = frame_.x_logarithmic
                             ? std::log(std::max(value, frame_.x_min) / frame_.x_min) /
                                   std::log(frame_.x_max / frame_.x_min)
                             : (value - frame_.x_min) / (frame_.x_max - frame_.x_min);
    return kLeft + std::clamp(share, 0.0, 1.0) * (frame_.width - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    const double share = (value - frame_.y_min) / (frame_.y_max - frame_.y_min);
    return frame_.height - kBottom - std::clamp(share, 0.0, 1.0) * (frame_.height - kTop - kBottom);
  }

 private:
  const ChartFrame& frame_;
};

std::string line(double x1, double y1, double x2, double y2, const char* css) {
  return "<line class=\"" + std::string(css) + "\" x1=\"" + place(x1) + "\" y1=\"" + place(y1) +
         "\" x2=\"" + place(x2) + "\" y2=\"" + place(y2) + "\"/>";
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + place(x) + "\" y=\"" + place(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>";
}

std::vector<double> x_labels(const ChartFrame& frame) {
  if (!frame.x_logarithmic) return round_steps(frame.x_min, frame.x_max, 8);
  std::vector<double> labels;
  for (double power = std::pow(10, std::ceil(std::log10(frame.x_min))); power <= frame.x_max;
       power *= 10) {
    labels.push_back(power);
  }
  return labels;
}

std::string axes(const ChartFrame& frame, const Scale& scale) {
  std::string svg;
  for (const double value : round_steps(frame.y_min, frame.y_max, 6)) {
    const double y = scale.y(value);
    svg += line(kLeft, y, frame.width - kRight, y, "grid");
    svg += label(kLeft - 6, y + 4, "end", frame.y_percent ? text_of(100 * value) : text_of(value));
  }
  for (const double value : x_labels(frame)) {
    const double x = scale.x(value);
    svg += line(x, frame.height - kBottom, x, frame.height - kBottom + 4, "axis");
    svg += label(x, frame.height - kBottom + 17, "middle", text_of(value));
  }
  svg += line(kLeft, frame.height - kBottom, frame.width - kRight, frame.height - kBottom, "axis");
  svg += label((kLeft + frame.width - kRight) / 2.0, frame.height - 6, "middle", frame.x_title);
  svg += "<text transform=\"translate(14 " + place((kTop + frame.height - kBottom) / 2.0) +
         ") rotate(-90)\" text-anchor=\"middle\">" + escaped(frame.y_title) + "</text>";
  if (frame.level) {
    svg += line(kLeft, scale.y(*frame.level), frame.width - kRight, scale.y(*frame.level), "level");
  }
  return svg;
}

std::string points(const Scale& scale, const std::vector<double>& x, const std::vector<double>& y) {
  std::string text;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    text += (i == 0 ? "" : " ") + place(scale.x(x[i])) + "," + place(scale.y(y[i]));
  return text;
}

std::string band(const Scale& scale, const ChartLine& item) {
  if (item.low.empty() || item.low.size() != item.high.size()) return "";
  std::vector<double> x = item.x;
  std::vector<double> y = item.low;
  x.insert(x.end(), item.x.rbegin(), item.x.rend());
  y.insert(y.end(), item.high.rbegin(), item.high.rend());
  return "<polygon class=\"band c" + std::to_string(item.colour) + "\" points=\"" +
         points(scale, x, y) + "\"/>";
}

std::string opening(int width, int height) {
  return "<svg viewBox=\"0 0 " + std::to_string(width) + " " + std::to_string(height) +
         "\" role=\"img\">";
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::vector<double> round_steps(double low, double high, int count) {
  std::vector<double> steps;
  if (!(high > low) || count < 1) return steps;
  const double raw = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999999) {
      step = factor * power;
      break;
    }
  }
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k)
    steps.push_back(k * step == 0 ? 0 : k * step);
  return steps;
}

std::string line_chart(const ChartFrame& frame, const std::vector<ChartLine>& lines) {
  const Scale scale(frame);
  constexpr int kPerRow = 3;
  const int rows = (static_cast<int>(lines.size()) + kPerRow - 1) / kPerRow;
  std::string svg = opening(frame.width, frame.height + rows * kLegendRow) + axes(frame, scale);
  for (const ChartLine& item : lines) svg += band(scale, item);
  for (const ChartLine& item : lines) {
    svg += "<polyline class=\"line c" + std::to_string(item.colour) + "\" points=\"" +
           points(scale, item.x, item.y) + "\"><title>" + escaped(item.name) +
           "</title></polyline>";
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double x = kLeft + static_cast<double>(i % kPerRow) * (frame.width - kLeft) / kPerRow;
    const double y = frame.height + 12 + static_cast<double>(i / kPerRow) * kLegendRow;
    const std::string css = "line c" + std::to_string(lines[i].colour);
    svg += line(x, y - 4, x + 20, y - 4, css.c_str()) + label(x + 26, y, "start", lines[i].name);
  }
  return svg + "</svg>";
}

std::string bar_rows(const std::vector<BarRow>& rows, double x_max, const std::string& x_title,
                     int width) {
  const int height = static_cast<int>(rows.size()) * kRowHeight + kBottom;
  const double bottom = static_cast<double>(rows.size()) * kRowHeight;
  const auto x_of = [&](double value) {
    return kNameWidth + std::clamp(value / x_max, 0.0, 1.0) * (width - kNameWidth - kRight);
  };
  std::string svg = opening(width, height);
  for (const double value : round_steps(0, x_max, 8)) {
    svg += line(x_of(value), 0, x_of(value), bottom + 4, "grid");
    svg += label(x_of(value), bottom + 17, "middle", text_of(value));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = static_cast<double>(i) * kRowHeight;
    svg += label(kNameWidth - 8, y + 15, "end", rows[i].name);
    // Those without a title are many: one path for all of a colour takes a fifth of the bytes.
    std::map<int, std::string> untitled;
    for (const Bar& bar : rows[i].bars) {
      const double length = x_of(bar.end) - x_of(bar.begin);
      if (length < 0.05) continue;
      if (bar.title.empty()) {
        untitled[bar.colour] += "M" + place(x_of(bar.begin)) + " " + place(y + kRowHeight / 2.0) +
                                "h" + place(std::max(length, 0.1));
        continue;
      }
      svg += "<rect class=\"bar c" + std::to_string(bar.colour) + "\" x=\"" +
             place(x_of(bar.begin)) + "\" y=\"" + place(y + 3) + "\" width=\"" +
             place(std::max(length, 0.1)) + "\" height=\"" + std::to_string(kRowHeight - 6) + "\">";
      svg += "<title>" + escaped(bar.title) + "</title></rect>";
    }
    for (const auto& [colour, path] : untitled) {
      svg += "<path class=\"bars c" + std::to_string(colour) + "\" stroke-width=\"" +
             std::to_string(kRowHeight - 6) + "\" d=\"" + path + "\"/>";
    }
  }
  svg += label((kNameWidth + width) / 2.0, height - 6, "middle", x_title);
  return svg + "</svg>";
}

}  // namespace fedqueue::simulation
