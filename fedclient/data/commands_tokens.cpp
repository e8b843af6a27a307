#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/file.h"
#include "fedclient/data/checksums.h"
#include "fedclient/data/commands.h"
#include "fedclient/data/formats.h"

namespace fedqueue {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

Status append_bytes(StreamedFile& file, std::span<const std::byte> text) {
  std::vector<std::uint16_t> tokens;
  for (std::size_t done = 0; done < text.size(); done += kChunk) {
    tokens.clear();
    for (const std::byte value : text.subspan(done, std::min(kChunk, text.size() - done)))
      tokens.push_back(static_cast<std::uint16_t>(value));
    if (Status status = file.write(std::as_bytes(std::span(tokens))); !status) return status;
  }
  return {};
}

}  // namespace

Status data_tokens(const DataTokensOptions& options, std::ostream& out) {
  std::vector<MappedFile> texts;
  for (const std::filesystem::path& path : options.texts) {
    Result<MappedFile> text = map_file(path);
    if (!text) return text.error();
    texts.push_back(std::move(*text));
  }
  std::error_code failed;
  std::filesystem::create_directories(options.output, failed);
  if (failed) return storage_error("create directory " + options.output.string(), failed.value());
  Result<StreamedFile> train = StreamedFile::create(options.output / "train.tokens");
  if (!train) return train.error();
  std::optional<StreamedFile> held_out;
  if (options.held_out > 0) {
    Result<StreamedFile> created = StreamedFile::create(options.output / "held_out.tokens");
    if (!created) return created.error();
    held_out.emplace(std::move(*created));
  }
  std::size_t trained = 0;
  std::size_t kept = 0;
  for (const MappedFile& text : texts) {
    const std::span<const std::byte> bytes = text->bytes();
    const auto end = static_cast<std::size_t>(static_cast<double>(bytes.size()) * options.held_out);
    if (Status status = append_bytes(*train, bytes.first(bytes.size() - end)); !status)
      return status;
    if (held_out) {
      if (Status status = append_bytes(*held_out, bytes.last(end)); !status) return status;
    }
    trained += bytes.size() - end;
    kept += end;
  }
  if (trained < 2 || (held_out && kept < 2)) {
    return data_error(options.texts.front(),
                      std::to_string(trained) + " tokens to train on and " + std::to_string(kept) +
                          " held out are too few",
                      "Use a longer text, or --held-out 0.");
  }
  if (Status status = train->finish(); !status) return status;
  if (held_out) {
    if (Status status = held_out->finish(); !status) return status;
  }
  const nlohmann::ordered_json description = {{"dtype", "u16"}, {"vocabulary", 256}};
  if (Status status = write_file_atomic(options.output / "tokens.json", description.dump() + "\n");
      !status) {
    return status;
  }
  if (Status status = write_checksums(options.output); !status) return status;
  if (options.json) {
    out << nlohmann::ordered_json{{"train", trained}, {"held_out", kept}, {"vocabulary", 256}}
               .dump()
        << "\n";
  } else {
    out << trained << " tokens to train on and " << kept << " held out, in "
        << options.output.string() << "\n";
  }
  return {};
}

}  // namespace fedqueue
