// std::stoi(text) in a comment is none.
long count(const char* text) { return std::atol(text); }
