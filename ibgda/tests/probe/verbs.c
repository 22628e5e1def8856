/* Prints what a C compiler makes of Debian's infiniband/verbs.h and mlx5dv.h, one fact a line. See ../layout.rs. */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("size %s %zu\n", #type, sizeof(struct type))
#define FIELD(type, field)                                                                                            \
	printf("field %s.%s %zu %zu\n", #type, #field, offsetof(struct type, field), sizeof(((struct type *)0)->field))
#define CONSTANT(name) printf("constant %s %llu\n", #name, (unsigned long long)(name))

int main(void)
{
	SIZE(ibv_port_attr);
	FIELD(ibv_port_attr, state);
	FIELD(ibv_port_attr, active_mtu);
	FIELD(ibv_port_attr, gid_tbl_len);
	FIELD(ibv_port_attr, lid);
	FIELD(ibv_port_attr, link_layer);
	FIELD(ibv_port_attr, port_cap_flags2);
	SIZE(ibv_gid_entry);
	FIELD(ibv_gid_entry, gid);
	FIELD(ibv_gid_entry, gid_index);
	FIELD(ibv_gid_entry, port_num);
	FIELD(ibv_gid_entry, gid_type);
	SIZE(ibv_mr);
	FIELD(ibv_mr, lkey);
	FIELD(ibv_mr, rkey);
	SIZE(ibv_ah_attr);
	FIELD(ibv_ah_attr, grh);
	FIELD(ibv_ah_attr, grh.dgid);
	FIELD(ibv_ah_attr, grh.sgid_index);
	FIELD(ibv_ah_attr, grh.hop_limit);
	FIELD(ibv_ah_attr, dlid);
	FIELD(ibv_ah_attr, is_global);
	FIELD(ibv_ah_attr, port_num);
	SIZE(mlx5dv_context_attr);
	FIELD(mlx5dv_context_attr, flags);
	FIELD(mlx5dv_context_attr, comp_mask);
	SIZE(mlx5dv_pd);
	FIELD(mlx5dv_pd, pdn);
	FIELD(mlx5dv_pd, comp_mask);
	SIZE(mlx5_wqe_av);
	FIELD(mlx5_wqe_av, rmac);
	FIELD(mlx5_wqe_av, rgid);
	SIZE(mlx5dv_ah);
	FIELD(mlx5dv_ah, av);
	SIZE(mlx5dv_obj);
	FIELD(mlx5dv_obj, ah.in);
	FIELD(mlx5dv_obj, ah.out);
	FIELD(mlx5dv_obj, pd.in);
	FIELD(mlx5dv_obj, pd.out);
	SIZE(mlx5dv_devx_umem);
	FIELD(mlx5dv_devx_umem, umem_id);
	SIZE(mlx5dv_devx_umem_in);
	FIELD(mlx5dv_devx_umem_in, addr);
	FIELD(mlx5dv_devx_umem_in, size);
	FIELD(mlx5dv_devx_umem_in, access);
	FIELD(mlx5dv_devx_umem_in, pgsz_bitmap);
	FIELD(mlx5dv_devx_umem_in, comp_mask);
	FIELD(mlx5dv_devx_umem_in, dmabuf_fd);
	SIZE(mlx5dv_devx_uar);
	FIELD(mlx5dv_devx_uar, reg_addr);
	FIELD(mlx5dv_devx_uar, base_addr);
	FIELD(mlx5dv_devx_uar, page_id);
	FIELD(mlx5dv_devx_uar, comp_mask);

	CONSTANT(IBV_PORT_ACTIVE);
	CONSTANT(IBV_LINK_LAYER_INFINIBAND);
	CONSTANT(IBV_LINK_LAYER_ETHERNET);
	CONSTANT(IBV_GID_TYPE_IB);
	CONSTANT(IBV_GID_TYPE_ROCE_V1);
	CONSTANT(IBV_GID_TYPE_ROCE_V2);
	CONSTANT(IBV_MTU_256);
	CONSTANT(IBV_MTU_4096);
	CONSTANT(IBV_ACCESS_LOCAL_WRITE);
	CONSTANT(IBV_ACCESS_REMOTE_WRITE);
	CONSTANT(IBV_ACCESS_REMOTE_READ);
	CONSTANT(IBV_ACCESS_REMOTE_ATOMIC);
	CONSTANT(MLX5DV_CONTEXT_FLAGS_DEVX);
	CONSTANT(MLX5DV_OBJ_AH);
	CONSTANT(MLX5DV_OBJ_PD);
	CONSTANT(MLX5DV_UMEM_MASK_DMABUF);
	CONSTANT(MLX5DV_UAR_ALLOC_TYPE_NC);

	/* The functions, as the bindings type them. */
	struct ibv_device **(*list)(int *) = ibv_get_device_list;
	ssize_t (*gids)(struct ibv_context *, struct ibv_gid_entry *, size_t, uint32_t, size_t) = _ibv_query_gid_table;
	struct ibv_mr *(*key)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int) = ibv_reg_mr_iova2;
	struct ibv_mr *(*buf)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int) = ibv_reg_dmabuf_mr;
	struct ibv_ah *(*ah)(struct ibv_pd *, struct ibv_ah_attr *) = ibv_create_ah;
	bool (*is)(struct ibv_device *) = mlx5dv_is_supported;
	struct ibv_context *(*open)(struct ibv_device *, struct mlx5dv_context_attr *) = mlx5dv_open_device;
	int (*init)(struct mlx5dv_obj *, uint64_t) = mlx5dv_init_obj;
	struct mlx5dv_devx_obj *(*create)(struct ibv_context *, const void *, size_t, void *, size_t) = mlx5dv_devx_obj_create;
	int (*modify)(struct mlx5dv_devx_obj *, const void *, size_t, void *, size_t) = mlx5dv_devx_obj_modify;
	int (*general)(struct ibv_context *, const void *, size_t, void *, size_t) = mlx5dv_devx_general_cmd;
	struct mlx5dv_devx_umem *(*reg)(struct ibv_context *, void *, size_t, uint32_t) = mlx5dv_devx_umem_reg;
	struct mlx5dv_devx_umem *(*ex)(struct ibv_context *, struct mlx5dv_devx_umem_in *) = mlx5dv_devx_umem_reg_ex;
	struct mlx5dv_devx_uar *(*uar)(struct ibv_context *, uint32_t) = mlx5dv_devx_alloc_uar;
	int (*eqn)(struct ibv_context *, uint32_t, uint32_t *) = mlx5dv_devx_query_eqn;
	return !(list && gids && key && buf && ah && is && open && init && create && modify && general && reg && ex && uar && eqn);
}
