#include "fedclient/data/plugin.h"

#include <dlfcn.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "fedclient/data/data_plugin.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kClassesMax = 1'000'000;
constexpr std::int64_t kElementsMax = std::int64_t{1} << 31;

struct CloseLibrary {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// Where a plugin puts its sentence.
class Sentence {
 public:
  char* data() { return text_.data(); }
  [[nodiscard]] static std::size_t size() { return kBytes; }
  [[nodiscard]] Error error(const std::string& attempted) {
    text_.back() = '\0';
    const std::string said(text_.data());
    return {Code::data, attempted + ": " + (said.empty() ? "it does not say why" : said),
            "This is the plugin's own message; ask its author."};
  }

 private:
  static constexpr std::size_t kBytes = 1024;
  std::array<char, kBytes> text_{};
};

Error no_plugin(const std::filesystem::path& path, const std::string& why) {
  return {Code::usage, "load the data plugin " + path.string() + ": " + why,
          "Build it against fedqueue/data_plugin.h of this release, and give its path."};
}

// An open dataset of a plugin, and the plugin.
class PluginSource : public SampleSource {
 public:
  PluginSource(Library library, const fedqueue_data_functions& table, std::string name)
      : library_(std::move(library)), table_(table), name_(std::move(name)) {}
  ~PluginSource() override {
    if (dataset_ != nullptr) table_.close(dataset_);
  }
  PluginSource(const PluginSource&) = delete;
  PluginSource& operator=(const PluginSource&) = delete;

  Status open(const std::filesystem::path& directory, Split split) {
    Sentence sentence;
    dataset_ = table_.open(directory.c_str(), split == Split::held_out ? 1 : 0, sentence.data(),
                           Sentence::size());
    if (dataset_ == nullptr) return sentence.error(name_ + " opens " + directory.string());
    return {};
  }

  Result<fedqueue_data_description> describe() {
    Sentence sentence;
    fedqueue_data_description out{};
    if (table_.describe(dataset_, &out, sentence.data(), Sentence::size()) != 0)
      return sentence.error(name_ + " describes its dataset");
    return out;
  }

  Status labels(std::vector<std::int32_t>& out) {
    Sentence sentence;
    if (table_.labels(dataset_, out.data(), sentence.data(), Sentence::size()) != 0)
      return sentence.error(name_ + " reads its labels");
    return {};
  }

  Status read(std::span<const std::int64_t> indices, std::span<std::byte> out) const override {
    Sentence sentence;
    if (table_.read(dataset_, indices.data(), static_cast<std::int64_t>(indices.size()), out.data(),
                    sentence.data(), Sentence::size()) != 0)
      return sentence.error(name_ + " reads samples");
    return {};
  }

 private:
  Library library_;
  const fedqueue_data_functions& table_;
  std::string name_;
  void* dataset_ = nullptr;
};

Result<std::shared_ptr<PluginSource>> load(const std::filesystem::path& path) {
  // A name without a slash would be looked for among the system's libraries.
  const std::filesystem::path absolute = std::filesystem::absolute(path);
  Library library(::dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) {
    const char* why = ::dlerror();
    return no_plugin(path, why != nullptr ? why : "it cannot be loaded");
  }
  using Entry = const fedqueue_data_functions* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library.get(), "fedqueue_data_plugin"));
  if (entry == nullptr) return no_plugin(path, "it has no function fedqueue_data_plugin");
  const fedqueue_data_functions* table = entry();
  if (table == nullptr) return no_plugin(path, "it has no table of functions");
  if (table->abi != FEDQUEUE_DATA_ABI) {
    return no_plugin(path, "it is for version " + std::to_string(table->abi) +
                               " of the interface, this program has version " +
                               std::to_string(FEDQUEUE_DATA_ABI));
  }
  if (!table->open || !table->describe || !table->labels || !table->read || !table->close)
    return no_plugin(path, "a function is missing in its table");
  return std::make_shared<PluginSource>(std::move(library), *table, path.filename().string());
}

Result<Dataset> described(const std::string& name, const fedqueue_data_description& said) {
  const auto impossible = [&](const std::string& what) {
    return Error{Code::data, name + " describes its dataset: " + what,
                 "fedqueue/data_plugin.h says what is allowed."};
  };
  if (said.samples < 1) return impossible("it has no samples");
  if (said.classes < 1 || said.classes > kClassesMax)
    return impossible("it has " + std::to_string(said.classes) + " classes");
  if (said.type != FEDQUEUE_DATA_U8 && said.type != FEDQUEUE_DATA_F32)
    return impossible("the type of its values is " + std::to_string(said.type));
  if (said.dimensions < 1 || said.dimensions > FEDQUEUE_DATA_DIMENSIONS_MAX)
    return impossible("a sample has " + std::to_string(said.dimensions) + " dimensions");
  Dataset dataset;
  dataset.dtype = said.type == FEDQUEUE_DATA_U8 ? tensor::DType::u8 : tensor::DType::f32;
  dataset.classes = said.classes;
  dataset.input.sizes.assign(said.sizes, said.sizes + said.dimensions);
  std::int64_t elements = 1;
  for (const std::int64_t size : dataset.input.sizes) {
    if (size < 1 || size > kElementsMax / elements)
      return impossible("a sample has the shape " + dataset.input.text());
    elements *= size;
  }
  dataset.labels.resize(static_cast<std::size_t>(said.samples), -1);
  return dataset;
}

}  // namespace

Result<Dataset> load_with_plugin(const std::filesystem::path& plugin,
                                 const std::filesystem::path& directory, Split split) {
  Result<std::shared_ptr<PluginSource>> source = load(plugin);
  if (!source) return source.error();
  if (Status status = (*source)->open(directory, split); !status) return status.error();
  const Result<fedqueue_data_description> said = (*source)->describe();
  if (!said) return said.error();
  const std::string name = plugin.filename().string();
  Result<Dataset> dataset = described(name, *said);
  if (!dataset) return dataset.error();
  if (Status status = (*source)->labels(dataset->labels); !status) return status.error();
  for (std::size_t i = 0; i < dataset->labels.size(); ++i) {
    if (dataset->labels[i] < 0 || dataset->labels[i] >= dataset->classes) {
      return Error{Code::data,
                   name + " reads its labels: sample " + std::to_string(i) + " has label " +
                       std::to_string(dataset->labels[i]) + " of " +
                       std::to_string(dataset->classes) + " classes",
                   "Correct the plugin or its data."};
    }
  }
  dataset->source = std::move(*source);
  return dataset;
}

}  // namespace fedqueue
