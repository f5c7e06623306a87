/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_server ADDRESS:PORT: a gRPC C++ server; every unary method returns its message. */
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <cstdio>

namespace
{

class Call : public grpc::ServerGenericBidiReactor
{
      public:
	Call()
	{
		StartRead(&message_);
	}
	void OnReadDone(bool ok) override
	{
		if (ok)
			StartWriteAndFinish(&message_, {}, grpc::Status::OK);
		else
			Finish({grpc::StatusCode::INVALID_ARGUMENT, "no message"});
	}
	void OnDone() override
	{
		delete this;
	}

      private:
	grpc::ByteBuffer message_;
};

class Echo : public grpc::CallbackGenericService
{
	grpc::ServerGenericBidiReactor *CreateReactor(grpc::GenericCallbackServerContext *) override
	{
		return new Call;
	}
};

} // namespace

int main(int argc, char **argv)
{
	Echo echo;
	grpc::ServerBuilder builder;

	if (argc != 2) {
		std::fputs("usage: grpc_server ADDRESS:PORT\n", stderr);
		return 2;
	}
	builder.AddListeningPort(argv[1], grpc::InsecureServerCredentials());
	builder.RegisterCallbackGenericService(&echo);
	auto server = builder.BuildAndStart();
	if (!server)
		return 1;
	server->Wait();
	return 0;
}
