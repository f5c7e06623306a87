
ˆ

echo.protosluice.demo"!
EchoMessage
text (	Rtext2B
Echo:
Echo.sluice.demo.EchoMessage.sluice.demo.EchoMessagebproto3