// Truncated power series through layers of y = tanh(W u + b); see perceptron.py for the mathematics.
//
// Points go through in blocks that stay in the cache. A block has a row for each unit, and a row has the coefficients of
// the series one after the other, each for POINTS points: one matrix product serves all coefficients, and every other
// loop runs over whole vectors.

#include <cstring>
#include <vector>

namespace {

#ifdef __AVX512F__
constexpr int LANES = 8, TILE_ROWS = 4, TILE_VECTORS = 4;
#else
constexpr int LANES = 4, TILE_ROWS = 4, TILE_VECTORS = 2;
#endif
constexpr int POINTS = 32;
constexpr int MOST = 16;  // coefficients of a series

typedef double Vector __attribute__((vector_size(8 * LANES)));
typedef long long Whole __attribute__((vector_size(8 * LANES)));
constexpr int VECTORS = POINTS / LANES;

struct Step {  // row k gets, or (if it is added to) changes by, weight times the product of rows i and j
    long of_slope, i, j, k, added;
    double weight;
};

struct Task {
    long points, parts, layers, steps, slopes, products, threads;
    const long* widths;             // of the input and of each layer
    const double* const* weights;   // (out, in) of each layer
    const double* const* biases;    // (out,) of each layer
    const Step* step;               // of tanh and its slope, in order
    const Step* slope;              // of the slope alone, from tanh
    const long* product;            // (i, j, k): row j of the gradient gets slope i times incoming k
};

Vector load(const double* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

void store(double* to, Vector v) { std::memcpy(to, &v, sizeof v); }

Vector all(double x) { return Vector{} + x; }

// exp(2x) - 1 = 2^k p + (2^k - 1) with p = exp(r) - 1, 2x = k ln 2 + r; then tanh = that / (that + 2).
Vector tanh_of(Vector x) {
    const Vector most = all(20.0);  // tanh is 1 beyond, to the last digit
    x = x > most ? most : x;
    x = x < -most ? -most : x;
    const Vector magic = all(6755399441055744.0);  // 1.5 * 2^52: its sum with k has k in its last bits
    const Vector shifted = x * (2 * 1.4426950408889634) + magic, k = shifted - magic;
    const Vector r = (2 * x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    Vector p = all(1.0 / 6227020800.0);
    const double inverse_factorials[] = {1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                         1.0 / 5040,      1.0 / 720,      1.0 / 120,     1.0 / 24,     1.0 / 6,
                                         0.5,             1.0};
    for (double c : inverse_factorials) p = p * r + c;
    p = p * r;
    const Whole exponent = ((Whole)shifted - (Whole)magic + 1023) << 52;
    const Vector power = (Vector)exponent, grown = power * p + (power - 1.0);
    return grown / (grown + 2.0);
}

// out[r] = sum_i a(r, i) in[i] for R rows of `columns` numbers; a(r, i) = a[r * across + i * along].
template <int R>
void product_rows(const double* a, long across, long along, const double* in, long inner, long columns, double* out) {
    for (long at = 0; at < columns; at += TILE_VECTORS * LANES) {
        Vector sum[R][TILE_VECTORS] = {};
        for (long i = 0; i < inner; ++i) {
            Vector v[TILE_VECTORS];
            for (int c = 0; c < TILE_VECTORS; ++c) v[c] = load(in + i * columns + at + c * LANES);
            for (int r = 0; r < R; ++r) {
                const Vector factor = all(a[r * across + i * along]);
                for (int c = 0; c < TILE_VECTORS; ++c) sum[r][c] += factor * v[c];
            }
        }
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < TILE_VECTORS; ++c) store(out + r * columns + at + c * LANES, sum[r][c]);
    }
}

void product(const double* a, long across, long along, const double* in, long inner, long columns, double* out, long rows) {
    constexpr decltype(&product_rows<1>) by_rows[] = {product_rows<1>, product_rows<2>, product_rows<3>, product_rows<4>};
    for (long r = 0; r < rows; r += TILE_ROWS) {
        const long n = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
        by_rows[n - 1](a + r * across, across, along, in, inner, columns, out + r * columns);
    }
}

double total(Vector v) {
    double sum = 0;
    for (int e = 0; e < LANES; ++e) sum += v[e];
    return sum;
}

// to[r][s] += sum over columns of a[r] b[s]; the gradient of weights.
template <int R, int S> void outer_tile(const double* a, const double* b, long columns, double* to, long stride) {
    Vector sum[R][S] = {};
    for (long at = 0; at < columns; at += LANES) {
        Vector v[S];
        for (int s = 0; s < S; ++s) v[s] = load(b + s * columns + at);
        for (int r = 0; r < R; ++r) {
            const Vector factor = load(a + r * columns + at);
            for (int s = 0; s < S; ++s) sum[r][s] += factor * v[s];
        }
    }
    for (int r = 0; r < R; ++r)
        for (int s = 0; s < S; ++s) to[r * stride + s] += total(sum[r][s]);
}

template <int R> void outer_rows(const double* a, const double* b, long columns, double* to, long stride, long inner) {
    for (long s = 0; s < inner; s += 4) {
        const double* from = b + s * columns;
        switch (inner - s) {
            case 1: outer_tile<R, 1>(a, from, columns, to + s, stride); break;
            case 2: outer_tile<R, 2>(a, from, columns, to + s, stride); break;
            case 3: outer_tile<R, 3>(a, from, columns, to + s, stride); break;
            default: outer_tile<R, 4>(a, from, columns, to + s, stride);
        }
    }
}

void outer(const double* a, const double* b, long columns, double* to, long rows, long inner) {
    for (long r = 0; r < rows; r += 4) {
        const double* from = a + r * columns;
        switch (rows - r) {
            case 1: outer_rows<1>(from, b, columns, to + r * inner, inner, inner); break;
            case 2: outer_rows<2>(from, b, columns, to + r * inner, inner, inner); break;
            case 3: outer_rows<3>(from, b, columns, to + r * inner, inner, inner); break;
            default: outer_rows<4>(from, b, columns, to + r * inner, inner, inner);
        }
    }
}

// y = tanh(u + bias) for one unit, with the coefficients of its slope on the way.
void activate(const Task& t, const double* u, double bias, double* y) {
    Vector s[MOST][VECTORS];
    for (int v = 0; v < VECTORS; ++v) {
        const Vector value = tanh_of(load(u + v * LANES) + bias);
        store(y + v * LANES, value);
        s[0][v] = 1.0 - value * value;
    }
    for (const Step* step = t.step; step < t.step + t.steps; ++step)
        for (int v = 0; v < VECTORS; ++v) {
            const long lane = v * LANES;
            if (step->of_slope) {
                const Vector made = step->weight * load(y + step->i * POINTS + lane) * load(y + step->j * POINTS + lane);
                s[step->k][v] = step->added ? s[step->k][v] + made : made;
            } else {
                double* to = y + step->k * POINTS + lane;
                const Vector made = step->weight * load(u + step->i * POINTS + lane) * s[step->j][v];
                store(to, step->added ? load(to) + made : made);
            }
        }
}

// The gradient in u from that in y = tanh u, of one unit: row j gets the sum of slope i times incoming k, in place.
void pull_back(const Task& t, const double* y, double* gradient) {
    Vector s[MOST][VECTORS], g[MOST][VECTORS];
    for (int v = 0; v < VECTORS; ++v) {
        const Vector value = load(y + v * LANES);
        s[0][v] = 1.0 - value * value;
    }
    for (const Step* step = t.slope; step < t.slope + t.slopes; ++step)
        for (int v = 0; v < VECTORS; ++v) {
            const long lane = v * LANES;
            const Vector made = step->weight * load(y + step->i * POINTS + lane) * load(y + step->j * POINTS + lane);
            s[step->k][v] = step->added ? s[step->k][v] + made : made;
        }
    for (long k = 0; k < t.parts; ++k)
        for (int v = 0; v < VECTORS; ++v) g[k][v] = s[0][v] * load(gradient + k * POINTS + v * LANES);
    for (const long* p = t.product; p < t.product + 3 * t.products; p += 3)
        for (int v = 0; v < VECTORS; ++v) g[p[1]][v] += s[p[0]][v] * load(gradient + p[2] * POINTS + v * LANES);
    for (long k = 0; k < t.parts; ++k)
        for (int v = 0; v < VECTORS; ++v) store(gradient + k * POINTS + v * LANES, g[k][v]);
}

// Between (parts, points, width) in memory and a block; the points that the last block lacks are zeros.
void gather(const Task& t, const double* from, long width, long first, double* block) {
    const long here = t.points - first < POINTS ? t.points - first : POINTS;
    for (long w = 0; w < width; ++w)
        for (long k = 0; k < t.parts; ++k) {
            double* row = block + (w * t.parts + k) * POINTS;
            for (long p = 0; p < here; ++p) row[p] = from[(k * t.points + first + p) * width + w];
            for (long p = here; p < POINTS; ++p) row[p] = 0;
        }
}

void scatter(const Task& t, const double* block, long width, long first, double* to) {
    const long here = t.points - first < POINTS ? t.points - first : POINTS;
    for (long w = 0; w < width; ++w)
        for (long k = 0; k < t.parts; ++k)
            for (long p = 0; p < here; ++p)
                to[(k * t.points + first + p) * width + w] = block[(w * t.parts + k) * POINTS + p];
}

long widest(const Task& t) {
    long most = 0;
    for (long l = 0; l <= t.layers; ++l) most = t.widths[l] > most ? t.widths[l] : most;
    return most;
}

long hidden(const Task& t) {  // units of all layers but the last
    long sum = 0;
    for (long l = 1; l < t.layers; ++l) sum += t.widths[l];
    return sum;
}

void forward_block(const Task& t, const double* input, long first, double* out, double* kept, double* a, double* b) {
    const long columns = t.parts * POINTS, last = t.layers - 1;
    gather(t, input, t.widths[0], first, a);
    const double* in = a;
    for (long l = 0; l < t.layers; ++l) {
        const long inner = t.widths[l], rows = t.widths[l + 1];
        product(t.weights[l], inner, 1, in, inner, columns, b, rows);
        if (l == last) break;
        for (long r = 0; r < rows; ++r) activate(t, b + r * columns, t.biases[l][r], kept + r * columns);
        in = kept;
        kept += rows * columns;
    }
    for (long r = 0; r < t.widths[t.layers]; ++r)
        for (int p = 0; p < POINTS; ++p) b[r * columns + p] += t.biases[last][r];
    scatter(t, b, t.widths[t.layers], first, out);
}

void backward_block(const Task& t, const double* input, const double* incoming, const double* kept, long first,
                    double* const* gradients, double* to_input, double* a, double* b, double* start) {
    const long columns = t.parts * POINTS;
    gather(t, input, t.widths[0], first, start);
    gather(t, incoming, t.widths[t.layers], first, a);
    const double* y = kept + hidden(t) * columns;
    for (long l = t.layers - 1; l >= 0; --l) {
        const long inner = t.widths[l], rows = t.widths[l + 1];
        y = l ? y - inner * columns : start;
        outer(a, y, columns, gradients[2 * l], rows, inner);
        for (long r = 0; r < rows; ++r)
            for (int v = 0; v < VECTORS; ++v) gradients[2 * l + 1][r] += total(load(a + r * columns + v * LANES));
        if (!l && !to_input) break;
        product(t.weights[l], 1, inner, a, rows, columns, b, inner);
        if (l)
            for (long r = 0; r < inner; ++r) pull_back(t, y + r * columns, b + r * columns);
        double* swapped = a;
        a = b;
        b = swapped;
    }
    if (to_input) scatter(t, a, t.widths[0], first, to_input);
}

}  // namespace

// kept: room for the hidden units of all blocks, in blocks.
extern "C" void perceptron_forward(const Task* task, const double* input, double* out, double* kept) {
    const Task& t = *task;
    const long blocks = (t.points + POINTS - 1) / POINTS, columns = t.parts * POINTS, room = widest(t) * columns;
#pragma omp parallel num_threads(t.threads) if (t.threads > 1)
    {
        std::vector<double> a(room), b(room);
#pragma omp for schedule(static)
        for (long n = 0; n < blocks; ++n)
            forward_block(t, input, n * POINTS, out, kept + n * hidden(t) * columns, a.data(), b.data());
    }
}

// gradients: of weight and bias of each layer in turn, one after the other, zeros; of `parts` sets, one is made of all.
extern "C" void perceptron_backward(const Task* task, const double* input, const double* incoming, const double* kept,
                                    double* gradients, long size, double* to_input) {
    const Task& t = *task;
    const long blocks = (t.points + POINTS - 1) / POINTS, columns = t.parts * POINTS, room = widest(t) * columns;
    std::vector<double> sums(t.threads * size);
#pragma omp parallel for num_threads(t.threads) if (t.threads > 1) schedule(static)
    for (long share = 0; share < t.threads; ++share) {  // sums do not depend on which thread takes which share
        std::vector<double> a(room), b(room), start(t.widths[0] * columns);
        std::vector<double*> places;
        double* place = sums.data() + share * size;
        for (long l = 0; l < t.layers; ++l) {
            places.push_back(place);
            places.push_back(place + t.widths[l] * t.widths[l + 1]);
            place += (t.widths[l] + 1) * t.widths[l + 1];
        }
        for (long n = share * blocks / t.threads; n < (share + 1) * blocks / t.threads; ++n)
            backward_block(t, input, incoming, kept + n * hidden(t) * columns, n * POINTS, places.data(), to_input,
                           a.data(), b.data(), start.data());
    }
    for (long share = 0; share < t.threads; ++share)
        for (long e = 0; e < size; ++e) gradients[e] += sums[share * size + e];
}
