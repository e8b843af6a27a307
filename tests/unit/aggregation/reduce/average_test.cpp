// What users rely on of the mean of several models: its numbers, its rules for what is no float,
// and that the models it is made of stay as they are.
#include "aggregation/reduce/average.h"

#include <gmock/gmock.h>

#include "model_files.h"

namespace fedqueue {
namespace {

using tensor::DType;
using testing::DoubleNear;
using testing::ElementsAre;

class AverageModels : public ModelFiles {
 protected:
  void average(std::size_t count) {
    std::vector<std::filesystem::path> models;
    for (std::size_t i = 0; i < count; ++i) models.push_back(path("model" + std::to_string(i)));
    const auto result = average_models(models, {{"note", "mean"}}, path("mean"));
    ASSERT_TRUE(result) << result.error().message;
  }
};

TEST_F(AverageModels, IsTheUniformMean) {
  const double models[] = {1.0, 1.3, 1.6};
  for (int i = 0; i < 3; ++i) {
    write("model" + std::to_string(i), {scalar(DType::f64, "w", models[i])},
          {{"fedqueue.model", "mlp"}});
  }
  average(3);
  EXPECT_THAT(values(path("mean"), "w"), ElementsAre(DoubleNear(1.3, 1e-9)));
  const auto metadata = tensor::Reader::open(path("mean"))->manifest().metadata;
  EXPECT_EQ(metadata.at("fedqueue.model"), "mlp");
  EXPECT_EQ(metadata.at("note"), "mean");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(values(path("model" + std::to_string(i)), "w"), ElementsAre(models[i]));
  }
}

TEST_F(AverageModels, ExtendsTheRulesToCountersIntegersAndStatistics) {
  const ModelFiles::Metadata buffers = {{"fedqueue.buffers", "bn.running_mean,bn.running_var"}};
  const auto model = [&](const std::string& name, double batches, double mean, double control) {
    write(name,
          {scalar(DType::i64, "bn.num_batches_tracked", batches),
           of_type(DType::i32, "n", {batches}), f32("bn.running_mean", {mean}),
           f32("bn.running_var", {1}), f32("fedqueue.control.w", {control}), f32("w", {mean})},
          buffers);
  };
  model("model0", 10, 0, 5);
  model("model1", 21, 2, 7);
  average(2);
  EXPECT_THAT(values(path("mean"), "bn.num_batches_tracked"), ElementsAre(21));
  EXPECT_THAT(values(path("mean"), "n"), ElementsAre(16)) << "15.5, half to even";
  EXPECT_THAT(values(path("mean"), "bn.running_mean"), ElementsAre(1));
  EXPECT_THAT(values(path("mean"), "bn.running_var"), ElementsAre(2)) << "1 + the means' spread";
  EXPECT_THAT(values(path("mean"), "fedqueue.control.w"), ElementsAre(7)) << "the newest";
}

}  // namespace
}  // namespace fedqueue
