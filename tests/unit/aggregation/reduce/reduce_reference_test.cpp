// The streaming, threaded, vectorised sum against one that is none of these.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "aggregation/reduce/reduce.h"
#include "core/base/prng.h"
#include "model_files.h"

namespace fedqueue {
namespace {

using tensor::DType;

// Sizes around the edges of vectors and of items; the last tensors span several items.
std::vector<TestTensor> random_model(Prng& random, double scale) {
  std::vector<TestTensor> model;
  const auto add = [&](DType dtype, const std::string& name, std::size_t size) {
    std::vector<double> numbers(size);
    for (double& number : numbers) {
      number = is_float(dtype) ? scale * random.normal() : std::floor(100 * random.uniform());
    }
    model.push_back(of_type(dtype, name, std::move(numbers)));
  };
  for (const std::size_t size : {1, 7, 8, 9, 31, 1000}) {
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i16}) {
      add(dtype, std::string(name_of(dtype)) + "." + std::to_string(size), size);
    }
  }
  add(DType::f32, "f32.large", 150'001);
  add(DType::bf16, "bf16.large", 300'007);
  add(DType::f64, "f64.large", 70'003);
  return model;
}

// Rounds to the type, as storing in a file does.
double stored(DType dtype, double value) {
  std::byte bytes[8];
  store_element(dtype, bytes, 0, value);
  return load_element(dtype, bytes, 0);
}

// One element by definition, in the precision that is promised.
double naive(DType dtype, double current, const std::vector<double>& deltas,
             const std::vector<double>& bases, const std::vector<double>& weights) {
  if (dtype == DType::f64) {
    double sum = 0;
    for (std::size_t k = 0; k < deltas.size(); ++k) {
      sum += weights[k] * (bases.empty() ? deltas[k] : bases[k] + deltas[k]);
    }
    return bases.empty() ? current + sum : sum;
  }
  float sum = 0;
  for (std::size_t k = 0; k < deltas.size(); ++k) {
    const auto delta = static_cast<float>(deltas[k]);
    const float value = bases.empty() ? delta : static_cast<float>(bases[k]) + delta;
    const float product = static_cast<float>(weights[k]) * value;
    sum += product;
  }
  return stored(dtype, bases.empty() ? static_cast<float>(current) + sum : sum);
}

class ReduceReference : public ModelFiles {
 protected:
  void SetUp() override {
    ModelFiles::SetUp();
    Prng random(99);
    models_.push_back(random_model(random, 1));
    write("current", models_.back());
    for (std::size_t k = 0; k < count; ++k) {
      models_.push_back(random_model(random, 0.1));
      write("update" + std::to_string(k), models_.back());
      weights_.push_back(0.05 + random.uniform() / count);
    }
    other_base_ = random_model(random, 1);
    write("base", other_base_);
  }

  ReduceRequest request(bool rebuild) {
    ReduceRequest request;
    request.current = path("current");
    request.rebuild_models = rebuild;
    request.output = path("output");
    for (std::size_t k = 0; k < count; ++k) {
      request.updates.push_back(
          {path("update" + std::to_string(k)), path(k % 2 == 0 ? "base" : "current"), weights_[k]});
    }
    return request;
  }

  void expect_equal_to_naive(bool rebuild) {
    const auto result = reduce(request(rebuild));
    ASSERT_TRUE(result) << result.error().message;
    double squares = 0;
    for (std::size_t t = 0; t < models_[0].size(); ++t) {
      const TestTensor& tensor = models_[0][t];
      if (!is_float(tensor.dtype)) continue;
      const std::vector<double> got = values(path("output"), tensor.name);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto value = [&](const std::vector<TestTensor>& model) {
          return stored(tensor.dtype, model[t].values[i]);
        };
        const double current = value(models_[0]);
        std::vector<double> deltas;
        std::vector<double> bases;
        for (std::size_t k = 0; k < count; ++k) {
          deltas.push_back(value(models_[k + 1]));
          if (rebuild) bases.push_back(k % 2 == 0 ? value(other_base_) : current);
        }
        ASSERT_EQ(got[i], naive(tensor.dtype, current, deltas, bases, weights_))
            << tensor.name << " at " << i;
        squares += (got[i] - current) * (got[i] - current);
      }
    }
    EXPECT_NEAR(result->step_norm, std::sqrt(squares), 1e-9 * std::sqrt(squares));
  }

  static constexpr std::size_t count = 6;  // one pass of four, and a rest
  std::vector<std::vector<TestTensor>> models_;
  std::vector<TestTensor> other_base_;
  std::vector<double> weights_;
};

TEST_F(ReduceReference, DeltasAreBitEqualToTheNaiveSum) { expect_equal_to_naive(false); }

TEST_F(ReduceReference, RebuiltModelsAreBitEqualToTheNaiveSum) { expect_equal_to_naive(true); }

TEST_F(ReduceReference, TheNumberOfThreadsDoesNotChangeABit) {
  for (const bool rebuild : {false, true}) {
    ReduceRequest alone = request(rebuild);
    alone.threads = 1;
    const auto expected = reduce(alone);
    ASSERT_TRUE(expected) << expected.error().message;
    for (const int threads : {2, 3, 8, 0}) {
      ReduceRequest other = request(rebuild);
      other.threads = threads;
      const auto got = reduce(other);
      ASSERT_TRUE(got) << got.error().message;
      EXPECT_EQ(got->sha256, expected->sha256) << threads << " threads";
      EXPECT_EQ(got->step_norm, expected->step_norm);
    }
  }
}

TEST_F(ReduceReference, TheFirstBrokenElementIsReportedWhateverTheThreads) {
  std::vector<TestTensor> broken = models_[1];
  for (TestTensor& tensor : broken) {
    if (tensor.name == "f32.large") tensor.values[140'000] = tensor.values[135'000] = INFINITY;
    if (tensor.name == "bf16.large") tensor.values[0] = INFINITY;
  }
  write("update0", broken);
  for (const int threads : {1, 2, 8}) {
    ReduceRequest several = request(false);
    several.threads = threads;
    const auto result = reduce(several);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::not_finite);
    EXPECT_THAT(result.error().message, testing::HasSubstr("'f32.large' is NaN or infinite at "
                                                           "element 135000"));
  }
}

// The kernels may see any alignment: tensors of odd length come before them in some files.
TEST(FloatKernels, AlignmentDoesNotMatter) {
  Prng random(5);
  constexpr std::size_t n = 1003;
  std::vector<std::byte> values(n * 8 + 64);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    std::vector<double> numbers(n);
    for (double& number : numbers) number = stored(dtype, random.normal());
    double expected = 0;
    for (std::size_t offset = 0; offset < 9; ++offset) {
      for (std::size_t i = 0; i < n; ++i) {
        store_element(dtype, values.data() + offset, i, numbers[i]);
      }
      const double squares = sum_of_squares(dtype, values.data() + offset, n);
      if (offset == 0) expected = squares;
      EXPECT_EQ(squares, expected) << offset;
      EXPECT_FALSE(first_not_finite(dtype, values.data() + offset, n));
    }
    store_element(dtype, values.data(), 777, NAN);
    EXPECT_FALSE(std::isfinite(sum_of_squares(dtype, values.data(), n)));
    EXPECT_EQ(first_not_finite(dtype, values.data(), n), 777u);
  }
}

}  // namespace
}  // namespace fedqueue
