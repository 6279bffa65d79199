// A server of a detector, as a plain HTTP loop: the body of a POST is an image (PPM), the answer a line per box. It
// shows what a server does with a network, and is no server for a network that others reach. frame_to_boxes.py runs it.
//
//     boxes_server FOLDER [PORT [cuda:0|hip:0|cpu]]        # port 0: any that is free; it prints its address
//     curl --data-binary @frame.ppm http://127.0.0.1:8000
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <sstream>

#include "boxes.hpp"

constexpr size_t MOST_BYTES = 65000000;

void check(bool is_right, const char* what) {
    if (!is_right) throw std::runtime_error(what);
}

// A socket that listens to this machine alone.
int listening(uint16_t port) {
    const int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    check(server >= 0, "no socket");
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    check(bind(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "the port is taken");
    check(listen(server, 8) == 0, "nobody can connect");
    socklen_t size = sizeof(address);
    getsockname(server, reinterpret_cast<sockaddr*>(&address), &size);
    printf("http://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return server;
}

// Reads the body of a request, whose length its head says.
std::string body_of(int client) {
    std::string read;
    char part[65536];
    size_t begin = std::string::npos, length = 0;
    while (begin == std::string::npos || read.size() < begin + length) {
        const ssize_t count = recv(client, part, sizeof(part), 0);
        check(count > 0, "the request ends early");
        read.append(part, static_cast<size_t>(count));
        check(read.size() < MOST_BYTES, "the request is too long");
        if (begin != std::string::npos) continue;
        const size_t end = read.find("\r\n\r\n");
        if (end == std::string::npos) continue;
        begin = end + 4;
        std::string head = read.substr(0, end);
        for (char& letter : head) letter = static_cast<char>(tolower(letter));
        const size_t field = head.find("content-length:");
        check(field < end, "the request has no Content-Length");
        length = strtoull(&head[field + 15], nullptr, 10);
        check(length < MOST_BYTES, "the image is too large");
    }
    return read.substr(begin, length);
}

void answer(int client, Detector& detector) {
    std::string status = "200 OK", text;
    try {
        std::istringstream image(body_of(client));
        for (const std::string& line : detector.boxes(read_ppm(image, "the request's body"))) text += line + "\n";
    } catch (const std::exception& error) {
        status = "400 Bad Request";
        text = std::string(error.what()) + "\n";
    }
    const std::string length = "\r\nContent-Length: " + std::to_string(text.size());
    const std::string whole =
        "HTTP/1.1 " + status + "\r\nContent-Type: text/plain\r\nConnection: close" + length + "\r\n\r\n" + text;
    for (size_t sent = 0; sent < whole.size();) {
        const ssize_t count = send(client, &whole[sent], whole.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) return;  // the caller has left
        sent += static_cast<size_t>(count);
    }
}

int main(int count, char** words) {
    if (count < 2) {
        fprintf(stderr, "usage: boxes_server FOLDER [PORT [cuda:0|hip:0|cpu]]\n");
        return 2;
    }
    try {
        Detector detector(words[1], count > 3 ? words[3] : nullptr);
        const int server = listening(static_cast<uint16_t>(count > 2 ? atoi(words[2]) : 8000));
        for (int client; (client = accept(server, nullptr, nullptr)) >= 0; close(client)) answer(client, detector);
        return 0;
    } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
