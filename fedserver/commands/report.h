// A run's status document as text for a terminal.
//
// Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace fedqueue {

// One line about one round: accuracy, and for every facility its queue wait and the predicted one,
// local steps, staleness, weight and outcome.
[[nodiscard]] std::string round_line(const nlohmann::json& round);
// What the parts of round_line() are.
[[nodiscard]] std::string round_line_legend();

// One row for each facility over the whole run.
[[nodiscard]] std::string facility_table(const nlohmann::json& status);

// The run at a glance, for `fedserver status`.
[[nodiscard]] std::string status_text(const nlohmann::json& status);

}  // namespace fedqueue
