/* Prints what a C compiler makes of Debian's infiniband/mlx5dv.h, one fact a line. See ../probe.rs. */
#include <infiniband/mlx5dv.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SIZE(type) printf("size %s %zu\n", #type, sizeof(struct type))
#define FIELD(type, field)                                                                                            \
	printf("field %s.%s %zu %zu\n", #type, #field, offsetof(struct type, field), sizeof(((struct type *)0)->field))
#define CONSTANT(name) printf("constant %s %llu\n", #name, (unsigned long long)(unsigned)(name))

static void bytes(const char *name, const void *memory, size_t length)
{
	printf("bytes %s ", name);
	for (size_t i = 0; i < length; i++)
		printf("%02x", ((const unsigned char *)memory)[i]);
	printf("\n");
}

int main(void)
{
	SIZE(mlx5_wqe_ctrl_seg);
	FIELD(mlx5_wqe_ctrl_seg, opmod_idx_opcode);
	FIELD(mlx5_wqe_ctrl_seg, qpn_ds);
	FIELD(mlx5_wqe_ctrl_seg, signature);
	FIELD(mlx5_wqe_ctrl_seg, dci_stream_channel_id);
	FIELD(mlx5_wqe_ctrl_seg, fm_ce_se);
	FIELD(mlx5_wqe_ctrl_seg, imm);
	SIZE(mlx5_wqe_raddr_seg);
	FIELD(mlx5_wqe_raddr_seg, raddr);
	FIELD(mlx5_wqe_raddr_seg, rkey);
	FIELD(mlx5_wqe_raddr_seg, reserved);
	SIZE(mlx5_wqe_data_seg);
	FIELD(mlx5_wqe_data_seg, byte_count);
	FIELD(mlx5_wqe_data_seg, lkey);
	FIELD(mlx5_wqe_data_seg, addr);
	SIZE(mlx5_wqe_inl_data_seg);
	FIELD(mlx5_wqe_inl_data_seg, byte_count);
	SIZE(mlx5_wqe_atomic_seg);
	FIELD(mlx5_wqe_atomic_seg, swap_add);
	FIELD(mlx5_wqe_atomic_seg, compare);
	SIZE(mlx5_cqe64);
	FIELD(mlx5_cqe64, srqn_uidx);
	FIELD(mlx5_cqe64, imm_inval_pkey);
	FIELD(mlx5_cqe64, app);
	FIELD(mlx5_cqe64, byte_cnt);
	FIELD(mlx5_cqe64, timestamp);
	FIELD(mlx5_cqe64, sop_drop_qpn);
	FIELD(mlx5_cqe64, wqe_counter);
	FIELD(mlx5_cqe64, signature);
	FIELD(mlx5_cqe64, op_own);
	SIZE(mlx5_err_cqe);
	FIELD(mlx5_err_cqe, srqn);
	FIELD(mlx5_err_cqe, vendor_err_synd);
	FIELD(mlx5_err_cqe, syndrome);
	FIELD(mlx5_err_cqe, s_wqe_opcode_qpn);
	FIELD(mlx5_err_cqe, wqe_counter);
	FIELD(mlx5_err_cqe, signature);
	FIELD(mlx5_err_cqe, op_own);

	CONSTANT(MLX5_OPCODE_NOP);
	CONSTANT(MLX5_OPCODE_RDMA_WRITE);
	CONSTANT(MLX5_OPCODE_RDMA_WRITE_IMM);
	CONSTANT(MLX5_OPCODE_SEND);
	CONSTANT(MLX5_OPCODE_SEND_IMM);
	CONSTANT(MLX5_OPCODE_RDMA_READ);
	CONSTANT(MLX5_OPCODE_ATOMIC_CS);
	CONSTANT(MLX5_OPCODE_ATOMIC_FA);
	CONSTANT(MLX5_OPCODE_ATOMIC_MASKED_CS);
	CONSTANT(MLX5_OPCODE_ATOMIC_MASKED_FA);
	CONSTANT(MLX5_CQE_OWNER_MASK);
	CONSTANT(MLX5_CQE_REQ);
	CONSTANT(MLX5_CQE_RESP_WR_IMM);
	CONSTANT(MLX5_CQE_RESP_SEND);
	CONSTANT(MLX5_CQE_RESP_SEND_IMM);
	CONSTANT(MLX5_CQE_REQ_ERR);
	CONSTANT(MLX5_CQE_RESP_ERR);
	CONSTANT(MLX5_CQE_INVALID);
	CONSTANT(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_MW_BIND_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	CONSTANT(MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);
	CONSTANT(MLX5_WQE_CTRL_CQ_UPDATE);
	CONSTANT(MLX5_WQE_CTRL_SOLICITED);
	CONSTANT(MLX5_WQE_CTRL_FENCE);
	CONSTANT(MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
	CONSTANT(MLX5_SEND_WQE_BB);
	CONSTANT(MLX5_SEND_WQE_SHIFT);
	CONSTANT(MLX5_INLINE_SEG);
	CONSTANT(MLX5_RCV_DBR);
	CONSTANT(MLX5_SND_DBR);

	/* Segments that the header's own functions build. */
	struct mlx5_wqe_ctrl_seg control;
	memset(&control, 0, sizeof control);
	mlx5dv_set_ctrl_seg(&control, 0xabcd, MLX5_OPCODE_ATOMIC_MASKED_CS, 9, 0x123456,
			    MLX5_WQE_CTRL_CQ_UPDATE | MLX5_WQE_CTRL_FENCE, 0x25, 0, 0);
	bytes("control", &control, sizeof control);
	struct mlx5_wqe_data_seg data;
	mlx5dv_set_data_seg(&data, 0x01020304, 0x05060708, 0x1112131415161718);
	bytes("data", &data, sizeof data);
	struct mlx5_cqe64 completion;
	memset(&completion, 0, sizeof completion);
	completion.op_own = MLX5_CQE_REQ_ERR << 4;
	mlx5dv_set_cqe_owner(&completion, 1);
	completion.wqe_counter = htobe16(0x1234);
	completion.sop_drop_qpn = htobe32(MLX5_OPCODE_RDMA_READ << 24 | 0x123456);
	completion.byte_cnt = htobe32(0x21222324);
	completion.timestamp = htobe64(0x3132333435363738);
	bytes("completion", &completion, sizeof completion);
	printf("constant OPCODE_OF_COMPLETION %u\n", mlx5dv_get_cqe_opcode(&completion));
	printf("constant OWNER_OF_COMPLETION %u\n", mlx5dv_get_cqe_owner(&completion));
	struct mlx5_err_cqe error;
	memset(&error, 0, sizeof error);
	error.vendor_err_synd = 0x96;
	error.syndrome = MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
	bytes("error", &error, sizeof error);
	return 0;
}
