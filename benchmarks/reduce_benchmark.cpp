// The weighted reduction next to the hardware's limit and a peer, measured in one run.
//
//   bench_reduce [--directory DIR] [--updates 8] [--mebibytes 256] [--repetitions 5] [--quick]
//
// Prints one JSON object. All rates count bytes read plus bytes written per second, and are medians
// over interleaved repetitions, so that a busy machine slows all contestants alike:
//
//   reduce      new = current + Σ a_k Δ_k over f32 files in page cache, checksummed and synced
//   adam        the same sum through the server's Adam: its state, twice the model, is read,
//   written,
//               checksummed and synced as well
//   copy        one model copied to another file by as many threads, with read(2) and write(2)
//   through
//               buffers that stay in cache, and synced: the bandwidth of copying, one byte written
//               per byte read
//   same_bytes  the harder limit: all the files of the reduction read, and one written, in the same
//               way. It computes nothing and checksums nothing: only moving the bytes is left
//   pytorch     the same sum, checksum and sync by PyTorch (reduce_pytorch.py); absent without it
//   screen      the structure, finiteness and norm check of one update, in bytes read per second
//
// Peak anonymous memory during the reduction is sampled from /proc and given in models.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "aggregation/reduce/reduce.h"
#include "aggregation/reduce/screen.h"
#include "core/base/prng.h"
#include "core/tensor/file.h"

namespace {

namespace fs = std::filesystem;
namespace options = boost::program_options;
using namespace fedqueue;

constexpr std::size_t mebibyte = 1u << 20;

struct Setting {
  fs::path directory;
  std::size_t updates = 8;
  std::size_t mebibytes = 256;
  int repetitions = 5;
  int threads = 0;
  std::string python;
};

[[noreturn]] void give_up(const Error& error) {
  std::cerr << "bench_reduce: " << error.message << '\n';
  std::exit(exit_code(error));
}

template <typename T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}

void must(const Status& status) {
  if (!status) give_up(status.error());
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// A folder that disappears with its content.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& parent) {
    std::string pattern = (parent / "bench-reduce-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) give_up(storage_error("create " + pattern, errno));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// A model of a few tensors of unequal size, written in pieces so that this process stays small.
void write_model(const fs::path& path, std::size_t mebibytes, std::uint64_t seed) {
  std::vector<tensor::TensorInfo> tensors;
  const auto rows = static_cast<std::int64_t>(mebibytes * 256);  // half of the model
  tensors.push_back({"embedding", tensor::DType::f32, {rows, 512}, 0, 0});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = "layer" + std::to_string(layer) + ".weight";
    tensors.push_back({name, tensor::DType::f32, {rows / 4, 512}, 0, 0});
  }
  auto writer = must(tensor::Writer::create(path, must(tensor::lay_out(std::move(tensors)))));
  Prng random(seed);
  std::vector<float> piece(mebibyte / sizeof(float));
  for (float& value : piece) value = static_cast<float>(0.01 * random.normal());
  std::uint64_t left = writer.manifest().data_bytes;
  while (left > 0) {
    const std::size_t count = std::min<std::uint64_t>(left, mebibyte);
    must(writer.write(std::as_bytes(std::span(piece)).first(count)));
    std::rotate(piece.begin(), piece.begin() + 1, piece.end());
    left -= count;
  }
  must(writer.finish());
}

// Runs work(first, last) on equal parts of [0, bytes), one per thread.
void in_parts(std::uint64_t bytes, int threads,
              const std::function<void(std::uint64_t, std::uint64_t)>& work) {
  std::vector<std::jthread> running;
  const auto count = static_cast<std::uint64_t>(threads);
  for (std::uint64_t i = 0; i < count; ++i) {
    running.emplace_back([=, &work] { work(bytes * i / count, bytes * (i + 1) / count); });
  }
}

// Reads all inputs and writes `bytes` of them to the output: the traffic of a reduction or, with
// one input, of a plain copy.
void move_bytes(const std::vector<fs::path>& inputs, const fs::path& output, std::uint64_t bytes,
                int threads) {
  const FileDescriptor out = must(open_file(output, O_WRONLY | O_CREAT | O_TRUNC));
  std::vector<FileDescriptor> in;
  for (const fs::path& input : inputs) in.push_back(must(open_file(input, O_RDONLY)));
  in_parts(bytes, threads, [&](std::uint64_t first, std::uint64_t last) {
    std::vector<std::byte> buffer(256 * 1024);
    for (std::uint64_t at = first; at < last; at += buffer.size()) {
      const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), last - at));
      for (std::size_t i = 0; i < in.size(); ++i) {
        must(tensor::read_at(in[i].get(), at, piece, inputs[i]));
      }
      if (::pwrite(out.get(), piece.data(), piece.size(), static_cast<off_t>(at)) !=
          static_cast<ssize_t>(piece.size())) {
        give_up(storage_error("write " + output.string(), errno));
      }
    }
  });
  if (::fsync(out.get()) != 0) give_up(storage_error("sync " + output.string(), errno));
}

std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

// The highest anonymous memory while it lives.
class MemoryWatch {
 public:
  MemoryWatch()
      : thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            peak_ = std::max<std::uint64_t>(peak_, anonymous_bytes());
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
        }) {}
  [[nodiscard]] std::uint64_t peak() const { return peak_; }

 private:
  std::atomic<std::uint64_t> peak_{0};
  std::jthread thread_;
};

// Seconds of one run of the peer, or nothing when PyTorch is not there.
std::optional<double> run_pytorch(const Setting& setting, const fs::path& folder) {
  const std::string command =
      "'" + setting.python + "' '" FEDQUEUE_BENCHMARK_SCRIPTS "/reduce_pytorch.py' --updates " +
      std::to_string(setting.updates) + " --threads " + std::to_string(setting.threads) + " '" +
      folder.string() + "' 2>/dev/null";
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  char part[256];
  while (std::fgets(part, sizeof part, pipe) != nullptr) text += part;
  const int status = ::pclose(pipe);
  const auto answer = nlohmann::json::parse(text, nullptr, false);
  if (status != 0 || !answer.is_object() || !answer.contains("seconds")) return std::nullopt;
  return answer["seconds"].get<double>();
}

class Benchmark {
 public:
  explicit Benchmark(Setting setting) : setting_(std::move(setting)), folder_(setting_.directory) {
    inputs_.push_back(folder_.path() / "current.safetensors");
    request_.current = inputs_[0];
    request_.output = folder_.path() / "output.safetensors";
    request_.threads = setting_.threads;
    for (std::size_t k = 0; k < setting_.updates; ++k) {
      inputs_.push_back(folder_.path() / ("update" + std::to_string(k) + ".safetensors"));
      request_.updates.push_back({inputs_.back(), {}, 1.0 / static_cast<double>(k + 2)});
    }
    for (std::size_t k = 0; k < inputs_.size(); ++k) write_model(inputs_[k], setting_.mebibytes, k);
    model_bytes_ = fs::file_size(inputs_[0]);
    adam_ = request_;
    adam_.step = {.optimizer = ServerOptimizer::adam, .learning_rate = 0.1};
    adam_.state_output = folder_.path() / "state.safetensors";
    must(reduce(adam_));
    adam_.state_input = adam_.state_output;
    adam_.state_output = folder_.path() / "next-state.safetensors";
  }

  nlohmann::json run() {
    move_all();  // brings every file into the page cache
    for (int i = 0; i < setting_.repetitions; ++i) {
      reduce_seconds_.push_back(fresh([&] { reduce_once(request_); }));
      adam_seconds_.push_back(fresh([&] { reduce_once(adam_); }));
      same_bytes_seconds_.push_back(fresh([&] { move_all(); }));
      copy_seconds_.push_back(fresh([&] { move_one(); }));
      screen_seconds_.push_back(seconds_of([&] { screen_once(); }));
      fs::remove(request_.output);
      if (const auto peer = run_pytorch(setting_, folder_.path()))
        pytorch_seconds_.push_back(*peer);
    }
    return report();
  }

 private:
  // Seconds of work that writes the output; the file that was there is removed before.
  double fresh(const std::function<void()>& work) const {
    fs::remove(request_.output);
    return seconds_of(work);
  }
  void reduce_once(const ReduceRequest& request) {
    const MemoryWatch watch;
    must(reduce(request));
    peak_bytes_ = std::max(peak_bytes_, watch.peak());
  }
  void move_all() const { move_bytes(inputs_, request_.output, model_bytes_, setting_.threads); }
  void move_one() const {
    move_bytes({inputs_[0]}, request_.output, model_bytes_, setting_.threads);
  }
  void screen_once() const {
    const auto model = must(tensor::Reader::open(inputs_[0])).manifest();
    must(screen_update(inputs_[1], model, {}));
  }

  [[nodiscard]] nlohmann::json report() const {
    const auto model = static_cast<double>(model_bytes_);
    const double traffic = model * static_cast<double>(inputs_.size() + 1);
    const double reduce_rate = traffic / median(reduce_seconds_);
    const double same_bytes_rate = traffic / median(same_bytes_seconds_);
    const double adam_traffic = traffic + 4 * model;
    const double copy_rate = 2 * model / median(copy_seconds_);
    nlohmann::json json = {
        {"reduce.updates", setting_.updates},
        {"reduce.model_bytes", model_bytes_},
        {"reduce.threads", setting_.threads},
        {"reduce.repetitions", setting_.repetitions},
        {"reduce.bytes_per_second", reduce_rate},
        {"reduce.seconds", reduce_seconds_},
        {"same_bytes.bytes_per_second", same_bytes_rate},
        {"same_bytes.seconds", same_bytes_seconds_},
        {"adam.bytes_per_second", adam_traffic / median(adam_seconds_)},
        {"adam.seconds", adam_seconds_},
        {"copy.bytes_per_second", copy_rate},
        {"copy.seconds", copy_seconds_},
        {"reduce.fraction_of_same_bytes", reduce_rate / same_bytes_rate},
        {"reduce.fraction_of_copy", reduce_rate / copy_rate},
        {"reduce.peak_anonymous_models", static_cast<double>(peak_bytes_) / model},
        {"screen.bytes_per_second", model / median(screen_seconds_)},
        {"reduce.ratio_to_pytorch", nullptr},
    };
    if (!pytorch_seconds_.empty()) {
      json["pytorch.seconds"] = pytorch_seconds_;
      json["reduce.ratio_to_pytorch"] = median(pytorch_seconds_) / median(reduce_seconds_);
    }
    return json;
  }

  Setting setting_;
  TemporaryFolder folder_;
  std::vector<fs::path> inputs_;  // the current model, then the updates
  ReduceRequest request_;
  ReduceRequest adam_;
  std::uint64_t model_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::vector<double> reduce_seconds_;
  std::vector<double> adam_seconds_;
  std::vector<double> same_bytes_seconds_;
  std::vector<double> copy_seconds_;
  std::vector<double> screen_seconds_;
  std::vector<double> pytorch_seconds_;
};

Setting parse(int argc, char** argv) {
  Setting setting;
  const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options::options_description all("bench_reduce");
  all.add_options()("help", "show this text")("quick", "small files, for a smoke test")(
      "directory", options::value(&setting.directory)->default_value(fs::temp_directory_path()),
      "where the files are made and removed; use a file system in memory to leave the disk out")(
      "updates", options::value(&setting.updates)->default_value(8), "number of updates")(
      "mebibytes", options::value(&setting.mebibytes)->default_value(256), "size of each file")(
      "repetitions", options::value(&setting.repetitions)->default_value(5), "of every contestant")(
      "threads", options::value(&setting.threads)->default_value(processors),
      "of every contestant")("python", options::value(&setting.python)->default_value("python3"),
                             "for PyTorch");
  options::variables_map values;
  options::store(options::parse_command_line(argc, argv, all), values);
  options::notify(values);
  if (values.contains("help")) {
    std::cout << all;
    std::exit(0);
  }
  if (values.contains("quick")) {
    setting.mebibytes = 4;
    setting.repetitions = 2;
  }
  setting.repetitions = std::max(setting.repetitions, 1);
  return setting;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::cout << Benchmark(parse(argc, argv)).run().dump(2) << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_reduce: " << error.what() << '\n';
    return 2;
  }
}
