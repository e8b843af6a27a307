// Files of seeds that once failed.
#include <algorithm>

#include "core/base/file.h"
#include "core/base/text.h"
#include "simulation/check/suite.h"

namespace fedqueue::simulation {
namespace {

constexpr std::size_t commit_digits = 15;  // fit into a seed that is not negative

std::optional<std::uint64_t> parse_hexadecimal(std::string_view text) {
  std::uint64_t value = 0;
  for (const char letter : text) {
    const auto digit = std::string_view("0123456789abcdef").find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

Result<std::vector<std::uint64_t>> read_seeds(const std::filesystem::path& path) {
  std::vector<std::uint64_t> seeds;
  std::error_code fault;
  if (!std::filesystem::exists(path, fault)) return seeds;
  const Result<std::string> content = read_file(path);
  if (!content) return content.error();
  int number = 0;
  for (const std::string& line : split(*content, '\n')) {
    ++number;
    const std::string_view text = trim(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    const std::optional<std::int64_t> seed = parse_integer(text);
    if (!seed || *seed < 0) {
      return Error{Code::usage,
                   "read seeds from '" + path.string() + "': line " + std::to_string(number) +
                       " is '" + std::string(text) + "', and a number from 0 was expected",
                   "Write one seed a line; # starts a comment."};
    }
    seeds.push_back(static_cast<std::uint64_t>(*seed));
  }
  return seeds;
}

Status add_seeds(const std::filesystem::path& path, const std::vector<FailedSeed>& failed) {
  const Result<std::vector<std::uint64_t>> known = read_seeds(path);
  if (!known) return known.error();
  std::string content;
  std::error_code fault;
  if (std::filesystem::exists(path, fault)) {
    Result<std::string> old = read_file(path);
    if (!old) return old.error();
    content = std::move(*old);
  }
  if (!content.empty() && content.back() != '\n') content += '\n';
  for (const FailedSeed& one : failed) {
    if (std::find(known->begin(), known->end(), one.seed) != known->end()) continue;
    content += std::to_string(one.seed) + "  # " + one.violations.front().what + "\n";
  }
  return write_file_atomic(path, content);
}

Result<std::uint64_t> seed_of_commit(const std::string& commit) {
  const std::string digits = commit.substr(0, commit_digits);
  const std::optional<std::uint64_t> seed = parse_hexadecimal(digits);
  if (digits.size() >= 7 && seed) return *seed;
  return Error{Code::usage, "make a seed of the commit '" + commit + "': it is no hash",
               "Give at least seven hexadecimal digits, as git rev-parse HEAD prints them."};
}

}  // namespace fedqueue::simulation
