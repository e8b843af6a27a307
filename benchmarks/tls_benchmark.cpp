// Uploads and downloads through the real server and the real client's link, next to what the
// hardware and OpenSSL allow, measured in one run.
//
//   bench_tls [--directory DIR] [--mebibytes 1024] [--repetitions 5] [--quick]
//
// Prints one JSON object. All rates are medians over interleaved repetitions, so that a busy
// machine slows all contestants alike:
//
//   tls.upload_fraction            bare seconds / seconds of Link::upload_update, which also
//                                  checksums the file first, asks, is screened and decided
//   tls.download_fraction          bare seconds / seconds of libcurl receiving and dropping a model
//   tls.download_to_file_fraction  bare seconds with SHA-256, write and fsync / seconds of
//                                  Link::download_model
//
// The bare loop is tls_bare.h. The directory decides which disk is synced; put it into memory
// (/dev/shm) to see the processor's share alone.
#include <curl/curl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "benchmarks/tls_bare.h"
#include "core/base/digest.h"
#include "core/base/prng.h"
#include "fedclient/link/link.h"
#include "fedserver/certificates/commands.h"
#include "fedserver/certificates/registry.h"
#include "fedserver/http/server.h"

namespace {

namespace fs = std::filesystem;
namespace options = boost::program_options;
using namespace fedqueue;

[[noreturn]] void give_up(const Error& error) {
  std::cerr << "bench_tls: " << error.message << '\n';
  std::exit(exit_code(error));
}

template <typename T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
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

struct Setting {
  fs::path directory = ".";
  std::size_t mebibytes = 1024;
  int repetitions = 5;
};

Setting read_setting(int argc, char** argv) {
  Setting setting;
  options::options_description description("bench_tls");
  std::string directory = ".";
  description.add_options()("help", "show this text")("directory", options::value(&directory),
                                                      "where the files are written and synced")(
      "mebibytes", options::value(&setting.mebibytes), "size of one update and model")(
      "repetitions", options::value(&setting.repetitions), "of each measurement")(
      "quick", "16 MiB and two repetitions, to see that it works");
  options::variables_map given;
  try {
    options::store(options::parse_command_line(argc, argv, description), given);
    options::notify(given);
  } catch (const options::error& fault) {
    give_up({Code::usage, fault.what(), ""});
  }
  if (given.contains("help")) {
    std::cout << description;
    std::exit(0);
  }
  if (given.contains("quick")) {
    setting.mebibytes = 16;
    setting.repetitions = 2;
  }
  setting.directory = directory;
  return setting;
}

// A server whose engine wants every update and decides it at once, and one facility.
class Bench {
 public:
  explicit Bench(const Setting& setting) : setting_(setting) {
    std::string pattern = (fs::absolute(setting.directory) / "bench-tls-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) give_up(storage_error("create a folder", errno));
    folder_ = pattern;
    make_files();
    make_certificates();
    start_server();
    make_link();
  }
  ~Bench() {
    link_.reset();
    server_.reset();
    blobs_.reset();
    registry_.reset();
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  [[nodiscard]] benchmark::BareFiles bare_files() const {
    return {run_.files.authority() / "ca.crt", run_.files.server_certificate(),
            run_.files.server_key()};
  }
  [[nodiscard]] const fs::path& source() const { return source_; }
  [[nodiscard]] fs::path file(const char* name) const { return folder_ / name; }

  double upload() {
    const UpdateId id("site-a." + std::to_string(++jobs_) + ".0.1");
    UpdateMetadata metadata;
    metadata.steps_run = 1;
    const double seconds = seconds_of(
        [&] { must(link_->upload_update(id, source_, metadata, "token", RetryPolicy{})); });
    // Removed outside of the measurement, as the server does after the round.
    if (Status removed = blobs_->remove_update(id); !removed) give_up(removed.error());
    return seconds;
  }
  double download_to_file() {
    const fs::path target = file("downloaded");
    const double seconds = seconds_of([&] { must(link_->download_model(Version{0}, target)); });
    fs::remove(target);
    return seconds;
  }
  double download();

 private:
  void make_files();
  void make_certificates();
  void start_server();
  void make_link();
  Answer decide(const Event& event);

  Setting setting_;
  fs::path folder_;
  fs::path source_;
  CertificateRun run_;
  fs::path kit_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<BlobStore> blobs_;
  http::ModelIndex models_;
  http::FactFeed feed_;
  Metrics metrics_;
  std::unique_ptr<http::HttpServer> server_;
  std::unique_ptr<Link> link_;
  std::mutex mutex_;
  std::set<UpdateId> decided_;  // guarded by mutex_
  int jobs_ = 0;
};

void Bench::make_files() {
  source_ = folder_ / "update.safetensors";
  std::ofstream out(source_, std::ios::binary);
  Prng prng(1);
  std::vector<std::uint64_t> block((1u << 20) / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < setting_.mebibytes; ++i) {
    for (std::uint64_t& word : block) word = prng.next();
    out.write(reinterpret_cast<const char*>(block.data()), 1 << 20);
  }
  if (!out.flush()) give_up({Code::storage, "write '" + source_.string() + "'", ""});
}

void Bench::make_certificates() {
  run_.files.run_directory = folder_ / "run";
  run_.run = "bench";
  run_.server_url = "https://127.0.0.1:1";
  must(create_certificates(run_, {{"localhost"}, {"127.0.0.1"}}));
  ClientCertificateOrder order{.identity = {IdentityKind::facility, "site-a"}};
  order.samples = 1;
  must(issue_client_certificate(run_, order));
  kit_ = run_.files.kit(order.identity);
  registry_ = std::make_unique<Registry>(must(Registry::open(run_.files.registry())));
}

Answer Bench::decide(const Event& event) {
  const auto answer_for = [](const UpdateId& id) {
    UpdateAnswer answer;
    answer.id = id;
    answer.next.kind = Next::Kind::stop;
    return answer;
  };
  const std::lock_guard lock(mutex_);
  if (const auto* stored = std::get_if<UpdateStored>(&event)) {
    decided_.insert(stored->id);
    return answer_for(stored->id);
  }
  if (const auto* asked = std::get_if<UpdateAsked>(&event)) {
    if (decided_.contains(asked->id)) return answer_for(asked->id);
    return Error{Code::not_found, "not known yet", ""};
  }
  return Accepted{};
}

void Bench::start_server() {
  blobs_ = must(BlobStore::open(folder_ / "server", BlobLimits{}));
  const std::string model = BlobStore::model_file(0);
  fs::create_hard_link(source_, blobs_->model_path(model));
  Sha256 digest;
  std::ifstream in(source_, std::ios::binary);
  std::vector<char> block(1u << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    digest.update(std::as_bytes(std::span(block.data(), static_cast<std::size_t>(in.gcount()))));
  }
  models_.on_replayed({}, RunOpened{"bench", {0, model, digest.hex(), fs::file_size(source_)}});
  http::HttpConfig config;
  config.run = "bench";
  config.tls = {run_.files.authority() / "ca.crt", run_.files.server_certificate(),
                run_.files.server_key()};
  http::HttpPorts ports;
  ports.post = [this](const Event& event, const Reply& reply) {
    if (reply) reply(decide(event));
    return true;
  };
  ports.rows = [](std::int64_t, std::size_t) -> Result<std::vector<JournalRow>> {
    return std::vector<JournalRow>{};
  };
  ports.screen = [](const fs::path&, const UpdateMetadata&,
                    const std::function<void(Result<double>)>& done) { done(1.0); };
  ports.admit = http::admission_by(*registry_);
  ports.blobs = blobs_.get();
  ports.models = &models_;
  ports.feed = &feed_;
  ports.metrics = &metrics_;
  server_ = must(http::HttpServer::start(std::move(config), std::move(ports)));
}

void Bench::make_link() {
  LinkConfig config;
  config.server_url = "https://127.0.0.1:" + std::to_string(server_->port());
  config.run = RunId("bench");
  config.ca = kit_ / "ca.crt";
  config.certificate = kit_ / "client.crt";
  config.key = kit_ / "client.key";
  config.proxy = "direct";
  link_ = must(Link::create(std::move(config)));
}

std::size_t drop(char* /*bytes*/, std::size_t size, std::size_t count, void* /*user*/) {
  return size * count;
}

double Bench::download() {
  const std::string url =
      "https://127.0.0.1:" + std::to_string(server_->port()) + "/v1/runs/bench/models/0";
  CURL* curl = ::curl_easy_init();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_CAINFO, (kit_ / "ca.crt").c_str());
  curl_easy_setopt(curl, CURLOPT_SSLCERT, (kit_ / "client.crt").c_str());
  curl_easy_setopt(curl, CURLOPT_SSLKEY, (kit_ / "client.key").c_str());
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &drop);
  CURLcode outcome = CURLE_OK;
  const double seconds = seconds_of([&] { outcome = ::curl_easy_perform(curl); });
  ::curl_easy_cleanup(curl);
  if (outcome != CURLE_OK) give_up({Code::network, ::curl_easy_strerror(outcome), ""});
  return seconds;
}

// Two contestants over the same repetitions.
struct Pair {
  std::vector<double> bare;
  std::vector<double> ours;
};

nlohmann::json report(const Pair& pair, double bytes) {
  const double bare = median(pair.bare);
  const double ours = median(pair.ours);
  return {{"bare_s", bare},
          {"ours_s", ours},
          {"bare_bytes_per_s", bytes / bare},
          {"ours_bytes_per_s", bytes / ours},
          {"fraction", bare / ours}};
}

}  // namespace

int main(int argc, char** argv) {
  const Setting setting = read_setting(argc, argv);
  Bench bench(setting);
  Pair upload;
  Pair download;
  Pair to_file;
  const benchmark::BareFiles files = bench.bare_files();
  for (int i = 0; i < setting.repetitions; ++i) {
    const fs::path target = bench.file("bare");
    upload.bare.push_back(benchmark::bare_upload(files, bench.source(), target));
    fs::remove(target);
    upload.ours.push_back(bench.upload());
    download.bare.push_back(benchmark::bare_download(files, bench.source()));
    download.ours.push_back(bench.download());
    to_file.bare.push_back(benchmark::bare_download_to_file(files, bench.source(), target));
    fs::remove(target);
    to_file.ours.push_back(bench.download_to_file());
  }
  const double bytes = static_cast<double>(setting.mebibytes) * (1 << 20);
  const nlohmann::json details = {{"upload", report(upload, bytes)},
                                  {"download", report(download, bytes)},
                                  {"download_to_file", report(to_file, bytes)}};
  const nlohmann::json out = {
      {"tls",
       {{"upload_fraction", details["upload"]["fraction"]},
        {"download_fraction", details["download"]["fraction"]},
        {"download_to_file_fraction", details["download_to_file"]["fraction"]},
        {"mebibytes", setting.mebibytes},
        {"repetitions", setting.repetitions},
        {"cipher", benchmark::bare_cipher()},
        {"details", details}}}};
  std::cout << out.dump(2) << '\n';
  return 0;
}
