#include <nlohmann/json.hpp>
#include <utility>

#include "fedclient/data/formats.h"

namespace fedqueue {
namespace {

constexpr const char* kDescription = "tokens.json";
constexpr std::int64_t kVocabularyMax = 1'000'000;
constexpr std::int64_t kVocabularyMaxU16 = 65'536;

std::string file_name(Split split) {
  return split == Split::train ? "train.tokens" : "held_out.tokens";
}

std::string files(Split split) { return file_name(split); }

bool present(const std::filesystem::path& directory, Split split) {
  return file_exists(directory / file_name(split));
}

struct Description {
  tensor::DType dtype;
  std::int64_t vocabulary;
};

Result<Description> describe(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kDescription;
  const std::string cure =
      "Write {\"dtype\": \"u16\" or \"i32\", \"vocabulary\": N} there, N from 2 to 1,000,000 "
      "(65,536 "
      "for u16).";
  const Result<std::string> text = read_file(path);
  if (!text) return Error{Code::data, text.error().message, cure};
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("vocabulary") || !json["vocabulary"].is_number_integer()) {
    return data_error(path, "dtype or vocabulary is missing", cure);
  }
  const auto dtype = json["dtype"].get<std::string>();
  const auto vocabulary = json["vocabulary"].get<std::int64_t>();
  if (dtype != "u16" && dtype != "i32") return data_error(path, "dtype is '" + dtype + "'", cure);
  if (vocabulary < 2 || vocabulary > (dtype == "u16" ? kVocabularyMaxU16 : kVocabularyMax))
    return data_error(path, "vocabulary is " + std::to_string(vocabulary), cure);
  return Description{dtype == "u16" ? tensor::DType::u16 : tensor::DType::i32, vocabulary};
}

Result<Dataset> load(const std::filesystem::path& directory, Split split) {
  const Result<Description> description = describe(directory);
  if (!description) return description.error();
  const std::filesystem::path path = directory / file_name(split);
  const Result<MappedFile> file = map_file(path);
  if (!file) return file.error();
  Dataset dataset;
  dataset.input = {{1}, true};
  dataset.dtype = description->dtype;
  dataset.classes = description->vocabulary;
  dataset.values = (*file)->bytes();
  dataset.owner = *file;
  dataset.mapped = true;
  if (dataset.values.size() % tensor::size_of(dataset.dtype) != 0) {
    return data_error(path,
                      "the file is truncated: " + std::to_string(dataset.values.size()) +
                          " bytes are no multiple of the " +
                          std::to_string(tensor::size_of(dataset.dtype)) + " of a token",
                      "Fetch or make the file again.");
  }
  return dataset;
}

Status write(const std::filesystem::path& directory, Split split, const Dataset& dataset,
             std::span<const std::int64_t> samples) {
  FEDQUEUE_ASSERT(dataset.input.tokens && samples.empty());
  Result<StreamedFile> file = StreamedFile::create(directory / file_name(split));
  if (!file) return file.error();
  if (Status status = file->write(dataset.values); !status) return status;
  if (Status status = file->finish(); !status) return status;
  const nlohmann::ordered_json description = {{"dtype", tensor::name_of(dataset.dtype)},
                                              {"vocabulary", dataset.classes}};
  return write_file_atomic(directory / kDescription, description.dump() + "\n");
}

}  // namespace

FormatEntry tokens_format() { return {DataFormat::tokens, "tokens", files, present, load, write}; }

}  // namespace fedqueue
