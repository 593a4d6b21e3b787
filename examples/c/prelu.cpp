// PReLU of a transposed matrix on the program's own threads: c++ -std=c++17 prelu.cpp $(python -m halfulp --cflags --libs)
#include <halfulp.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

// Runs the parts of a call on four threads.
static int on_four_threads(void*, void (*work)(void*, size_t), void* data, size_t count) {
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (size_t part; (part = next++) < count;) work(data, part);
        });
    for (std::thread& thread : threads) thread.join();
    return 0;
}

int main() {
    const ptrdiff_t rows = 1000, columns = 300, size = sizeof(double);
    std::vector<double> x(rows * columns, -2), y(rows * columns), slope(columns);
    for (ptrdiff_t i = 0; i < columns; ++i) slope[i] = i / 4.0;
    const ptrdiff_t shape[] = {rows, columns}, transposed[] = {size, rows * size};
    const halfulp_array of_x{x.data(), HALFULP_FLOAT64, 2, shape, transposed, 0};
    const halfulp_array of_slope{slope.data(), HALFULP_FLOAT64, 1, shape + 1, nullptr, 0};
    const halfulp_array of_y{y.data(), HALFULP_FLOAT64, 2, shape, nullptr, 0};
    halfulp_options options{};
    options.size = sizeof options;
    options.parallel_for = on_four_threads;
    const halfulp_status status = halfulp_prelu(&of_x, &of_slope, &of_y, &options);
    std::printf("%s y[999][299] = %g, 2^0.5 = %.9g\n", halfulp_status_text(status), y[999 * columns + 299],
                halfulp_powf(2, 0.5f));
    return status;
}
