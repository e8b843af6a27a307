#include "aggregation/weighting/staleness.h"

#include <cmath>
#include <sstream>
#include <vector>

#include "core/base/text.h"

namespace fedqueue {
namespace {

const std::vector<std::string>& staleness_names() {
  static const std::vector<std::string> names = {"constant", "harmonic", "exponential",
                                                 "polynomial", "hinge"};
  return names;
}

Error not_a_staleness_function(std::string_view text) {
  const std::string meant = nearest(text.substr(0, text.find(':')), staleness_names());
  return Error{Code::usage, "'" + std::string(text) + "' is not a staleness function",
               (meant.empty() ? "use" : "did you mean " + meant + "? use") +
                   std::string(" constant, harmonic:BETA, exponential:BETA, polynomial:EXPONENT "
                               "or hinge:SLOPE,THRESHOLD")};
}

}  // namespace

StalenessFunction StalenessFunction::constant() { return {}; }
StalenessFunction StalenessFunction::harmonic(double beta) { return {Kind::harmonic, beta, 0}; }
StalenessFunction StalenessFunction::exponential(double beta) {
  return {Kind::exponential, beta, 0};
}
StalenessFunction StalenessFunction::polynomial(double exponent) {
  return {Kind::polynomial, exponent, 0};
}
StalenessFunction StalenessFunction::hinge(double slope, double threshold) {
  return {Kind::hinge, slope, threshold};
}

Result<StalenessFunction> StalenessFunction::named(std::string_view name, double first,
                                                   double second) {
  if (name == "constant") return constant();
  // A negative parameter would make older updates count for more.
  const bool usable = std::isfinite(first) && first >= 0 && std::isfinite(second) && second >= 0;
  for (std::size_t i = 1; i < staleness_names().size(); ++i) {
    if (name != staleness_names()[i]) continue;
    if (!usable)
      return Error{Code::usage,
                   "the parameters of the staleness function '" + std::string(name) +
                       "' must be numbers ≥ 0",
                   "a negative one would make older updates count for more"};
    return StalenessFunction(static_cast<Kind>(i), first, name == "hinge" ? second : 0);
  }
  return not_a_staleness_function(name);
}

Result<StalenessFunction> StalenessFunction::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  double first = name == "hinge" ? 10 : 0.5;
  double second = 4;
  if (colon != std::string_view::npos) {
    const std::vector<std::string> given = split(text.substr(colon + 1), ',');
    const std::size_t taken = name == "constant" ? 0 : name == "hinge" ? 2 : 1;
    if (given.size() > taken) return not_a_staleness_function(text);
    double* const targets[] = {&first, &second};
    for (std::size_t i = 0; i < given.size(); ++i) {
      const std::optional<double> value = parse_real(trim(given[i]));
      if (!value) return not_a_staleness_function(text);
      *targets[i] = *value;
    }
  }
  return named(name, first, second);
}

double StalenessFunction::operator()(double staleness) const {
  const double tau = staleness > 0 ? staleness : 0;
  switch (kind_) {
    case Kind::constant:
      return 1;
    case Kind::harmonic:
      return 1 / (1 + first_ * tau);
    case Kind::exponential:
      return std::exp(-first_ * tau);
    case Kind::polynomial:
      return std::pow(tau + 1, -first_);
    case Kind::hinge:
      return tau <= second_ ? 1 : 1 / (first_ * (tau - second_) + 1);
  }
  return 1;
}

std::string StalenessFunction::text() const {
  std::ostringstream out;
  out.precision(17);
  out << staleness_names()[static_cast<std::size_t>(kind_)];
  if (kind_ != Kind::constant) out << ':' << first_;
  if (kind_ == Kind::hinge) out << ',' << second_;
  return out.str();
}

}  // namespace fedqueue
