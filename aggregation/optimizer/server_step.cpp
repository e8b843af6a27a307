#include "aggregation/optimizer/server_step.h"

#include <array>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr std::array<std::pair<std::string_view, ServerOptimizer>, 8> names = {{
    {"none", ServerOptimizer::none},
    {"momentum", ServerOptimizer::momentum},
    {"adam", ServerOptimizer::adam},
    {"yogi", ServerOptimizer::yogi},
    {"adagrad", ServerOptimizer::adagrad},
    {"nesterov", ServerOptimizer::nesterov},
    {"delayed_nesterov", ServerOptimizer::delayed_nesterov},
    {"heloco", ServerOptimizer::heloco},
}};

Error out_of_range(std::string_view name, std::string_view expected, double got) {
  std::ostringstream text;
  text << "the server step's " << name << " must be " << expected << ", not " << got;
  return {Code::usage, text.str(), ""};
}

bool within_unit(double value) { return value >= 0 && value < 1; }

}  // namespace

Status ServerStep::validate() const {
  if (!std::isfinite(learning_rate) || learning_rate <= 0)
    return out_of_range("learning rate", "above 0", learning_rate);
  if (!within_unit(momentum)) return out_of_range("momentum", "at least 0 and below 1", momentum);
  if (!within_unit(beta2)) return out_of_range("beta2", "at least 0 and below 1", beta2);
  if (!std::isfinite(tau) || tau <= 0) return out_of_range("tau", "above 0", tau);
  if (delay < 1) return out_of_range("delay", "1 or more", static_cast<double>(delay));
  return {};
}

std::string_view server_optimizer_name(ServerOptimizer optimizer) {
  for (const auto& [name, value] : names)
    if (value == optimizer) return name;
  return "";
}

Result<ServerOptimizer> parse_server_optimizer(std::string_view text) {
  std::vector<std::string> known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known.emplace_back(name);
  }
  const std::string meant = nearest(text, known);
  return Error{Code::usage, "'" + std::string(text) + "' is not a server optimiser",
               meant.empty() ? "use one of " + join(known, ", ") : "did you mean " + meant + "?"};
}

std::vector<std::string_view> server_optimizer_names() {
  std::vector<std::string_view> result;
  for (const auto& [name, value] : names) result.push_back(name);
  return result;
}

}  // namespace fedqueue
