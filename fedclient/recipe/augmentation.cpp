#include "fedclient/recipe/augmentation.h"

#include <cmath>
#include <optional>

#include "core/base/text.h"

namespace fedqueue {

Result<Normalization> parse_normalization(const std::string& text) {
  const Error unreadable = {
      Code::usage,
      "read normalize: '" + text + "' is not as many means as deviations, 1 to " +
          std::to_string(kNormalizedChannelsMax) + " of each",
      "Write MEAN,…/DEVIATION,…, one for each channel or one for all; deviations are above 0."};
  const std::vector<std::string> halves = split(text, '/');
  if (halves.size() != 2) return unreadable;
  const std::vector<std::string> means = split(halves[0], ',');
  const std::vector<std::string> deviations = split(halves[1], ',');
  if (means.empty() || means.size() != deviations.size() || means.size() > kNormalizedChannelsMax)
    return unreadable;
  Normalization normalization;
  normalization.channels = static_cast<std::int32_t>(means.size());
  for (std::size_t i = 0; i < means.size(); ++i) {
    const std::optional<double> mean = parse_real(trim(means[i]));
    const std::optional<double> deviation = parse_real(trim(deviations[i]));
    if (!mean || !deviation || !std::isfinite(*mean) || !std::isfinite(*deviation)) {
      return unreadable;
    }
    normalization.mean[i] = static_cast<float>(*mean);
    normalization.deviation[i] = static_cast<float>(*deviation);
    if (!(normalization.deviation[i] > 0)) return unreadable;
  }
  return normalization;
}

}  // namespace fedqueue
