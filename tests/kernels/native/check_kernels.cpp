// Checks the CPU kernels, forward and backward, against double precision: each usable instruction set,
// dtype and mask, lengths around tile and block edges, strided tensors, several callers at once, fork().
// Buffers are exactly as long as the problem, so that a sanitizer or valgrind sees a step beyond.
//
// With the argument `brief`: two head dims, and no fork(), after which qemu-user 7.2 and the thread
// sanitizer do not let a process start threads.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attention.h"

namespace {

using flashbench::Attention;
using flashbench::Dtype;
using flashbench::Strides;

struct Case {
    int64_t batch, heads, kv_heads, q_len, k_len, head_dim;
    bool causal;
    Dtype dtype;
    int64_t gap = 0;  // elements between one row and the next; head vectors with `gap` are strided
    int64_t causal_offset = 0;
};

double to_double(const unsigned char* at, Dtype dtype) {
    if (dtype == Dtype::fp32) {
        float x;
        std::memcpy(&x, at, sizeof x);
        return x;
    }
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    if (dtype == Dtype::bf16) {
        const uint32_t wide = static_cast<uint32_t>(bits) << 16;
        float x;
        std::memcpy(&x, &wide, sizeof x);
        return x;
    }
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(1024 + mantissa, exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

// Numbers of few bits, which every dtype holds exactly.
void put(unsigned char* at, Dtype dtype, float x) {
    if (dtype == Dtype::fp32) {
        std::memcpy(at, &x, sizeof x);
        return;
    }
    uint32_t wide;
    std::memcpy(&wide, &x, sizeof wide);
    uint16_t bits = static_cast<uint16_t>(wide >> 16);
    if (dtype == Dtype::fp16) {
        const uint32_t sign = (wide >> 16) & 0x8000u, magnitude = wide & 0x7fffffffu;
        bits = static_cast<uint16_t>(
            sign | (magnitude == 0 ? 0 : (magnitude - (112u << 23)) >> 13));
    }
    std::memcpy(at, &bits, sizeof bits);
}

struct Tensor {
    Dtype dtype;
    Strides strides;
    std::vector<unsigned char> bytes;

    Tensor(int64_t batch, int64_t heads, int64_t length, const Case& c)
        : dtype(c.dtype) {
        const int64_t step = c.gap ? 2 : 1, row = c.head_dim * step + c.gap;
        strides = {heads * length * row, length * row, row, step};
        const int64_t last = batch * heads * length == 0
                                 ? 0
                                 : (batch * heads * length - 1) * row + (c.head_dim - 1) * step + 1;
        bytes.resize(static_cast<size_t>(last) * width());
    }
    size_t width() const { return dtype == Dtype::fp32 ? 4 : 2; }
    unsigned char* at(int64_t b, int64_t h, int64_t i, int64_t d) {
        return bytes.data() + width() * static_cast<size_t>(b * strides.batch + h * strides.head +
                                                            i * strides.seq + d * strides.dim);
    }
};

struct Problem {
    Case shape;
    Tensor q, k, v, out, dout, dq, dk, dv;
    std::vector<float> lse;

    explicit Problem(const Case& c, unsigned seed = 1)
        : shape(c),
          q(c.batch, c.heads, c.q_len, c),
          k(c.batch, c.kv_heads, c.k_len, c),
          v(c.batch, c.kv_heads, c.k_len, c),
          out(c.batch, c.heads, c.q_len, c),
          dout(c.batch, c.heads, c.q_len, c),
          dq(c.batch, c.heads, c.q_len, c),
          dk(c.batch, c.kv_heads, c.k_len, c),
          dv(c.batch, c.kv_heads, c.k_len, c),
          lse(static_cast<size_t>(c.batch * c.heads * c.q_len)) {
        std::mt19937 random(seed);
        std::uniform_int_distribution<int> eighths(-16, 16);
        for (Tensor* x : {&q, &k, &v, &dout}) {
            for (size_t i = 0; i < x->bytes.size(); i += x->width()) {
                put(x->bytes.data() + i, c.dtype, static_cast<float>(eighths(random)) / 8);
            }
        }
    }

    void compute(int threads) { flashbench::cpu::attention(attention(), threads); }

    void compute_gradients(int threads) {
        flashbench::AttentionBackward a;
        a.forward = attention();
        a.forward.lse = lse.data();
        a.forward.lse_rows = shape.q_len;
        flashbench::cpu::attention(a.forward, threads);
        a.dout = dout.bytes.data();
        a.dq = dq.bytes.data();
        a.dk = dk.bytes.data();
        a.dv = dv.bytes.data();
        a.dout_strides = dout.strides;
        a.dq_strides = dq.strides;
        a.dk_strides = dk.strides;
        a.dv_strides = dv.strides;
        a.deterministic = true;
        flashbench::cpu::attention_backward(a, threads);
    }

    Attention attention() {
        Attention a;
        a.q = q.bytes.data();
        a.k = k.bytes.data();
        a.v = v.bytes.data();
        a.out = out.bytes.data();
        a.q_strides = q.strides;
        a.k_strides = k.strides;
        a.v_strides = v.strides;
        a.out_strides = out.strides;
        a.batch = shape.batch;
        a.heads = shape.heads;
        a.kv_heads = shape.kv_heads;
        a.q_len = shape.q_len;
        a.k_len = shape.k_len;
        a.head_dim = shape.head_dim;
        a.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
        a.causal = shape.causal;
        a.causal_offset = shape.causal_offset;
        a.dtype = shape.dtype;
        return a;
    }

    double largest_error() {
        double worst = 0;
        for (int64_t b = 0; b < shape.batch; ++b) {
            for (int64_t h = 0; h < shape.heads; ++h) {
                for (int64_t i = 0; i < shape.q_len; ++i) worst = std::max(worst, row_error(b, h, i));
            }
        }
        return worst;
    }

    // Errors of dq, dk and dv, relative to the largest element of each or, if that is larger, to the largest
    // term of dq and dk before dP and delta cancel: delta is as exact as the rounded output.
    double largest_gradient_error() {
        const size_t q_rows = lse.size(), k_rows = static_cast<size_t>(shape.kv_heads * shape.k_len);
        const auto dims = static_cast<size_t>(shape.head_dim);
        double worst = 0;
        largest_term = 1e-2;
        for (int64_t b = 0; b < shape.batch; ++b) {
            std::vector<double> of_q(q_rows * dims), of_k(k_rows * dims), of_v(k_rows * dims);
            for (int64_t h = 0; h < shape.heads; ++h) {
                for (int64_t i = 0; i < shape.q_len; ++i) add_row(b, h, i, of_q, of_k, of_v);
            }
            worst = std::max({worst, error_of(dq, b, shape.heads, shape.q_len, of_q),
                              error_of(dk, b, shape.kv_heads, shape.k_len, of_k),
                              error_of(dv, b, shape.kv_heads, shape.k_len, of_v)});
        }
        return worst;
    }

  private:
    double largest_term = 0;

    double error_of(Tensor& found, int64_t b, int64_t heads, int64_t length,
                    const std::vector<double>& expected) {
        double worst = 0, largest = &found == &dv ? 1e-2 : largest_term;
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t i = 0; i < length; ++i) {
                for (int64_t d = 0; d < shape.head_dim; ++d) {
                    const double right = expected[(h * length + i) * shape.head_dim + d];
                    const double x = to_double(found.at(b, h, i, d), shape.dtype);
                    worst = std::max(worst, std::fabs(x - right));
                    largest = std::max(largest, std::fabs(right));
                }
            }
        }
        return worst / largest;
    }

    double dot(Tensor& x, int64_t b, int64_t h, int64_t i, Tensor& y, int64_t g, int64_t j) {
        double sum = 0;
        for (int64_t d = 0; d < shape.head_dim; ++d) {
            sum += to_double(x.at(b, h, i, d), shape.dtype) *
                   to_double(y.at(b, g, j, d), shape.dtype);
        }
        return sum;
    }

    // Adds what a row of queries has in each gradient.
    void add_row(int64_t b, int64_t h, int64_t i, std::vector<double>& of_q,
                 std::vector<double>& of_k, std::vector<double>& of_v) {
        const int64_t g = h / (shape.heads / shape.kv_heads), dims = shape.head_dim;
        const int64_t last = i + shape.causal_offset;
        const int64_t seen =
            shape.causal ? std::clamp<int64_t>(last + 1, 0, shape.k_len) : shape.k_len;
        const double scale = 1 / std::sqrt(static_cast<double>(dims));
        std::vector<double> weights(static_cast<size_t>(seen)), changes(weights.size());
        double total = 0, delta = 0;
        for (int64_t j = 0; j < seen; ++j) {
            weights[j] = std::exp(dot(q, b, h, i, k, g, j) * scale);
            total += weights[j];
            changes[j] = dot(dout, b, h, i, v, g, j);
        }
        for (int64_t j = 0; j < seen; ++j) delta += (weights[j] /= total) * changes[j];
        for (int64_t j = 0; j < seen; ++j) {
            const double change = weights[j] * (changes[j] - delta) * scale;
            const double term = weights[j] * (std::fabs(changes[j]) + std::fabs(delta)) * scale;
            largest_term = std::max(largest_term, term);
            for (int64_t d = 0; d < dims; ++d) {
                const int64_t at = (g * shape.k_len + j) * dims + d;
                of_q[(h * shape.q_len + i) * dims + d] +=
                    change * to_double(k.at(b, g, j, d), shape.dtype);
                of_k[at] += change * to_double(q.at(b, h, i, d), shape.dtype);
                of_v[at] += weights[j] * to_double(dout.at(b, h, i, d), shape.dtype);
            }
        }
    }

    double row_error(int64_t b, int64_t h, int64_t i) {
        const int64_t g = h / (shape.heads / shape.kv_heads);
        const int64_t last = i + shape.causal_offset;
        const int64_t seen =
            shape.causal ? std::clamp<int64_t>(last + 1, 0, shape.k_len) : shape.k_len;
        std::vector<double> weights(static_cast<size_t>(seen)), sums(shape.head_dim, 0.0);
        double total = 0;
        for (int64_t j = 0; j < seen; ++j) {
            double score = 0;
            for (int64_t d = 0; d < shape.head_dim; ++d) {
                score += to_double(q.at(b, h, i, d), shape.dtype) *
                         to_double(k.at(b, g, j, d), shape.dtype);
            }
            weights[j] = std::exp(score / std::sqrt(static_cast<double>(shape.head_dim)));
            total += weights[j];
        }
        for (int64_t j = 0; j < seen; ++j) {
            for (int64_t d = 0; d < shape.head_dim; ++d) {
                sums[d] += weights[j] / total * to_double(v.at(b, g, j, d), shape.dtype);
            }
        }
        double worst = 0;
        for (int64_t d = 0; d < shape.head_dim; ++d) {
            worst = std::max(worst, std::fabs(to_double(out.at(b, h, i, d), shape.dtype) - sums[d]));
        }
        return worst;
    }
};

int failures = 0;

void expect(bool holds, const std::string& what) {
    if (holds) return;
    std::printf("FAILED %s\n", what.c_str());
    ++failures;
}

std::string describe(const Case& c) {
    return flashbench::cpu::selected_isa() + " " + flashbench::name_of(c.dtype) + " " +
           std::to_string(c.heads) + "," + std::to_string(c.kv_heads) + "," +
           std::to_string(c.q_len) + "," + std::to_string(c.k_len) + "," +
           std::to_string(c.head_dim) + (c.causal ? " causal" : " full") +
           (c.causal_offset != 0 ? " shifted" : "");
}

// Values reach 2: the last bit of bf16 there is 2^-7, and weights are rounded to it, too.
void check_result(const Case& c) {
    const double bounds[] = {3e-6, 2e-3, 1.6e-2};
    Problem problem(c);
    problem.compute(2);
    const double error = problem.largest_error();
    expect(error <= bounds[static_cast<int>(c.dtype)],
           describe(c) + ": error " + std::to_string(error));
}

void check_gradients(const Case& c) {
    const double bounds[] = {3e-6, 2e-3, 1.6e-2};
    Problem problem(c);
    problem.compute_gradients(2);
    const double error = problem.largest_gradient_error();
    expect(error <= bounds[static_cast<int>(c.dtype)],
           describe(c) + ": error of a gradient " + std::to_string(error));
}

void check_results(const std::vector<int64_t>& head_dims) {
    const int64_t lengths[][2] = {{1, 1},   {1, 200},  {7, 33},   {30, 129}, {65, 64},
                                  {40, 300}, {2, 1100}, {1, 1100}, {50, 40},
                                  {37, 2},  {50, 8}};
    for (const Dtype dtype : {Dtype::fp32, Dtype::fp16, Dtype::bf16}) {
        for (const auto& length : lengths) {
            for (const int64_t head_dim : head_dims) {
                for (const bool causal : {false, true}) {
                    // Heads that share keys; heads that do not, whose rows may be read in place.
                    for (const int64_t kv_heads : {1, 2}) {
                        for (const int64_t gap : {0, 3}) {
                            const Case c{1,        2,      kv_heads, length[0], length[1],
                                         head_dim, causal, dtype,    gap};
                            check_result(c);
                            check_gradients(c);
                            if (causal && gap == 0) {
                                check_result({1, 2, kv_heads, length[0], length[1], head_dim, true,
                                              dtype, gap, length[1] - length[0]});
                                check_gradients({1, 2, kv_heads, length[0], length[1], head_dim,
                                                 true, dtype, gap, length[1] - length[0]});
                            }
                        }
                    }
                }
            }
        }
    }
    // Several sections of keys.
    check_gradients({2, 2, 2, 130, 700, 136, true, Dtype::fp32, 3, 570});
    check_gradients({1, 4, 1, 70, 1400, 136, false, Dtype::bf16});
    // Larger than 4 MiB: rows are fetched ahead.
    for (const bool causal : {false, true}) {
        check_result({1, 8, 8, 130, 400, 136, causal, Dtype::fp32, 3});
        check_result({2, 8, 8, 130, 400, 136, causal, Dtype::bf16});
    }
}

// Several callers at once, each with the bits that it gets alone.
void check_callers() {
    const Case c{1, 3, 3, 100, 200, 64, true, Dtype::fp32};
    Problem alone(c);
    alone.compute_gradients(1);
    std::vector<std::thread> callers;
    std::vector<int> wrong(4, 0);
    for (size_t caller = 0; caller < wrong.size(); ++caller) {
        callers.emplace_back([&alone, &wrong, c, caller] {
            for (int i = 0; i < 20; ++i) {
                Problem mine(c);
                mine.compute_gradients(3);
                wrong[caller] += mine.out.bytes != alone.out.bytes || mine.dk.bytes != alone.dk.bytes;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    for (const int count : wrong) expect(count == 0, "several callers: other bits");
}

void check_fork() {
    const Case c{1, 3, 3, 100, 200, 64, false, Dtype::fp32};
    Problem before(c);
    before.compute(3);
    const pid_t child = fork();
    if (child == 0) {
        Problem mine(c);
        mine.compute(3);
        _exit(mine.out.bytes == before.out.bytes ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child of fork()");
}

}  // namespace

int main(int count, char** arguments) {
    const bool brief = count > 1 && std::strcmp(arguments[1], "brief") == 0;
    const std::vector<int64_t> head_dims =
        brief ? std::vector<int64_t>{40, 64} : std::vector<int64_t>{32, 40, 64, 136};
    for (const std::string& isa : flashbench::cpu::usable_isas()) {
        flashbench::cpu::select_isa(isa);
        check_results(head_dims);
        check_callers();
        std::printf("%s checked\n", isa.c_str());
    }
    if (!brief) check_fork();
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
