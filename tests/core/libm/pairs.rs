use std::io::BufRead;
fn main() {
    for line in std::io::stdin().lock().lines() {
        let pair: Vec<f64> = line.unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
        println!("{:?}", pair[0].powf(pair[1]));
    }
}
